package eventlog

import (
	"testing"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/sourcetest"
)

var (
	_ ports.Source   = (*Log)(nil)
	_ ports.Acceptor = (*Log)(nil)
)

func TestLogKeepsTheContract(t *testing.T) {
	t.Parallel()
	sourcetest.Run(t, harness(nil))
}

func TestLogOfManyFilesKeepsTheContract(t *testing.T) {
	t.Parallel()
	sourcetest.Run(t, harness(config{"segment_bytes": int64(minSegmentBytes)}))
}
