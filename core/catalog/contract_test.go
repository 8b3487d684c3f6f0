package catalog_test

import (
	"github.com/stowage-go/stowage/core/catalog"
	"github.com/stowage-go/stowage/core/pipeline"
)

var _ pipeline.Parts = (*catalog.Composition)(nil)
