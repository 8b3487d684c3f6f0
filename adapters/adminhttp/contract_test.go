package adminhttp_test

import "github.com/stowage-go/stowage/adapters/adminhttp"

var _ adminhttp.Control = (*adminhttp.Client)(nil)
