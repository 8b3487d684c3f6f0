package webhook

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/sinktest"
	"github.com/stowage-go/stowage/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pause is what a receiver asks for.
const pause = 90 * time.Second

// failingReceiver answers some requests by a failure, and hands the others to a receiver.
type failingReceiver struct {
	receiver http.Handler

	mu       sync.Mutex
	received []types.SinkEvent
	how      sinktest.Failure
	only     []types.MatchID
}

func (r *failingReceiver) fails(id types.MatchID) sinktest.Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.only) > 0 && !slices.Contains(r.only, id) {
		return sinktest.Works
	}
	return r.how
}

func (r *failingReceiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	switch r.fails(types.MatchID(request.Header.Get("Webhook-Id"))) {
	case sinktest.Transient:
		w.WriteHeader(http.StatusBadGateway)
	case sinktest.Permanent:
		w.WriteHeader(http.StatusUnprocessableEntity)
	case sinktest.RateLimited:
		w.Header().Set("Retry-After", strconv.Itoa(int(pause/time.Second)))
		w.WriteHeader(http.StatusTooManyRequests)
	default:
		r.receiver.ServeHTTP(w, request)
	}
}

// harness opens sinks as a catalog does, by the factory, with a receiver of this package.
func harness() sinktest.Harness {
	return sinktest.Harness{
		Open: func(t testing.TB) sinktest.Sink {
			clock := fixture.NewClock(fixture.Epoch())
			r := new(failingReceiver)
			r.receiver = NewReceiver(ReceiverOptions{Secret: otherSecret, Clock: clock, Handle: func(_ context.Context, d Delivery) error {
				r.mu.Lock()
				defer r.mu.Unlock()
				d.Event.Traceparent = d.Traceparent
				r.received = append(r.received, d.Event)
				return nil
			}})
			server := httptest.NewServer(r)
			t.Cleanup(server.Close)
			config := keys("url = \"" + server.URL + "\"\nsecret = \"" + otherSecret + "\"\nallow_private = true")
			sink, err := SinkModule().Open(t.Context(), fixture.Env(t, "earthquakes/alerts", clock), config, nil)
			require.NoError(t, err)
			return sinktest.Sink{
				Sink: sink,
				Received: func(testing.TB) []types.SinkEvent {
					r.mu.Lock()
					defer r.mu.Unlock()
					return slices.Clone(r.received)
				},
				Fail: func(_ testing.TB, how sinktest.Failure, only ...types.MatchID) {
					r.mu.Lock()
					defer r.mu.Unlock()
					r.how, r.only = how, only
				},
			}
		},
		Closes:        true,
		Fails:         []sinktest.Failure{sinktest.Transient, sinktest.Permanent, sinktest.RateLimited},
		FailsOne:      true,
		Pause:         pause,
		MaxEventBytes: ports.MaxJSONBytes,
	}
}
