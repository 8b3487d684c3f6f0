package webhook

import (
	"io"
	"net/http"
	"testing"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/sinktest"
)

var (
	_ ports.Sink   = (*Sink)(nil)
	_ io.Closer    = (*Sink)(nil)
	_ http.Handler = (*receiver)(nil)
)

func TestContract(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, harness())
}
