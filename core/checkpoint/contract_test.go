package checkpoint_test

import (
	"github.com/stowage-go/stowage/core/checkpoint"
	"github.com/stowage-go/stowage/ports"
)

var (
	_ checkpoint.Loader = (ports.CheckpointStore)(nil)
	_ checkpoint.Saver  = (ports.CheckpointStore)(nil)
)
