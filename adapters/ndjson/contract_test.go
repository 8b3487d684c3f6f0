package ndjson

import (
	"testing"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/sinktest"
	"github.com/stowage-go/stowage/testkit/sourcetest"
)

var (
	_ ports.Source    = (*Source)(nil)
	_ ports.BatchSink = (*Sink)(nil)
	_ ports.BatchSink = (*Printer)(nil)
)

func TestSourceThatFollowsKeepsTheContract(t *testing.T) {
	t.Parallel()
	sourcetest.Run(t, following())
}

func TestSourceThatEndsKeepsTheContract(t *testing.T) {
	t.Parallel()
	sourcetest.Run(t, ending())
}

func TestSinkKeepsTheContract(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, appending())
}

func TestPrinterKeepsTheContract(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, printing())
}
