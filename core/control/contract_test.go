package control_test

import (
	"github.com/stowage-go/stowage/core/control"
	"github.com/stowage-go/stowage/ports"
)

var _ control.Storage = ports.Storage(nil)
