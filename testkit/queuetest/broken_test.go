package queuetest_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/testkit/queuetest"
	"github.com/stowage-go/stowage/types"
)

// brokenVariable names the broken queue that a child process runs the suite on.
const brokenVariable = "STOWAGE_QUEUETEST_BROKEN"

// brokenQueues are queues with one fault each, and the case of the suite that must see it.
var brokenQueues = map[string]struct {
	mustFail string
	broken   func(ports.QueueStore) ports.QueueStore
}{
	"reverses a batch": {"batch/a batch of ten goes in, visible at once and in order", func(q ports.QueueStore) ports.QueueStore {
		return brokenReceive{q, func(messages []types.Message) { slices.Reverse(messages) }}
	}},
	"loses digits of JSON": {"payload/JSON comes back byte for byte", func(q ports.QueueStore) ports.QueueStore {
		return brokenReceive{q, func(messages []types.Message) {
			for i := range messages {
				messages[i].Payload.Data = strings.ReplaceAll(messages[i].Payload.Data, "9007199254740993", "9007199254740992")
			}
		}}
	}},
	"refuses what was never issued": {"receipt/a receipt that was never issued has no effect", func(q ports.QueueStore) ports.QueueStore {
		return refusing{q}
	}},
	"lets a lease end early": {"lease/a lease ends at its very millisecond", func(q ports.QueueStore) ports.QueueStore {
		return shortLease{q}
	}},
	"delivers twice": {"race/six receivers share 30 messages without a double delivery", func(q ports.QueueStore) ports.QueueStore {
		return &doubling{QueueStore: q}
	}},
	"does not wait": {"wait/a send wakes", func(q ports.QueueStore) ports.QueueStore {
		return impatient{q}
	}},
	"drops what a late context leaves": {"life/a call whose context was cancelled leaves nothing behind", func(q ports.QueueStore) ports.QueueStore {
		return ignoresContext{q}
	}},
	"takes bulks of any size": {"bulk/bulks hold 1 to 1000", func(q ports.QueueStore) ports.QueueStore {
		return boundless{q}
	}},
	"counts wrongly": {"stats/stats count a mix", func(q ports.QueueStore) ports.QueueStore {
		return miscounting{q}
	}},
}

type brokenReceive struct {
	ports.QueueStore
	change func([]types.Message)
}

func (b brokenReceive) Receive(ctx context.Context, opts types.ReceiveOptions) ([]types.Message, error) {
	messages, err := b.QueueStore.Receive(ctx, opts)
	b.change(messages)
	return messages, err
}

type refusing struct{ ports.QueueStore }

func (r refusing) Ack(ctx context.Context, receipt string) error {
	if _, _, ok := ports.ParseReceipt(receipt); !ok {
		return ports.Errorf(ports.CodeInvalidInput, "queue.ack", "the receipt is malformed")
	}
	return r.QueueStore.Ack(ctx, receipt)
}

type shortLease struct{ ports.QueueStore }

func (s shortLease) Receive(ctx context.Context, opts types.ReceiveOptions) ([]types.Message, error) {
	if opts.Lease > ports.MinLease {
		opts.Lease -= time.Millisecond
	}
	return s.QueueStore.Receive(ctx, opts)
}

type doubling struct {
	ports.QueueStore
	mu   sync.Mutex
	last []types.Message
}

func (d *doubling) Receive(ctx context.Context, opts types.ReceiveOptions) ([]types.Message, error) {
	messages, err := d.QueueStore.Receive(ctx, opts)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(messages) == 0 {
		messages, d.last = d.last, nil
	} else {
		d.last = messages
	}
	return messages, err
}

type impatient struct{ ports.QueueStore }

func (i impatient) Receive(ctx context.Context, opts types.ReceiveOptions) ([]types.Message, error) {
	opts.Wait = 0
	return i.QueueStore.Receive(ctx, opts)
}

type ignoresContext struct{ ports.QueueStore }

func (i ignoresContext) Send(ctx context.Context, payload types.Payload, opts types.SendOptions) error {
	return i.QueueStore.Send(context.WithoutCancel(ctx), payload, opts)
}

type boundless struct{ ports.QueueStore }

func (b boundless) SendBulk(ctx context.Context, payloads []types.Payload) ([]types.SendOutcome, error) {
	var outcomes []types.SendOutcome
	for part := range slices.Chunk(payloads, ports.MaxBatch) {
		sent, err := b.SendBatch(ctx, part)
		if err != nil {
			return nil, err
		}
		outcomes = append(outcomes, sent...)
	}
	return outcomes, nil
}

type miscounting struct{ ports.QueueStore }

func (m miscounting) Stats(ctx context.Context) (types.QueueStats, error) {
	stats, err := m.QueueStore.Stats(ctx)
	stats.InFlight, stats.Delayed = stats.InFlight+stats.Delayed, 0
	return stats, err
}

// TestSuiteOnABrokenQueue is what the child processes of TestSuiteSeesBrokenQueues run.
func TestSuiteOnABrokenQueue(t *testing.T) {
	queue, ok := brokenQueues[os.Getenv(brokenVariable)]
	if !ok {
		t.Skip("runs in the child processes of TestSuiteSeesBrokenQueues only")
	}
	_, sendsBulk := queue.broken(nil).(ports.BulkSender)
	queuetest.Run(t, queuetest.Harness{
		Open: func(_ testing.TB, clock ports.Clock) queuetest.Store {
			return queuetest.Store{Queue: queue.broken(model.NewQueue(clock))}
		},
		Clocked:     true,
		CanSendBulk: sendsBulk,
	})
}

func TestSuiteSeesBrokenQueues(t *testing.T) {
	t.Parallel()
	for name, queue := range brokenQueues {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output := failingChild(t, name, queue.mustFail)
			require.Contains(t, output, "--- FAIL: TestSuiteOnABrokenQueue/", "want a case of the suite to fail, got:\n%s", output)
		})
	}
}

// failingChild runs one case of the suite on a broken queue in a process of its own, and returns
// what it printed.
func failingChild(t *testing.T, name, testCase string) string {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestSuiteOnABrokenQueue$/"+quoteCase(testCase))
	child.Env = append(os.Environ(), brokenVariable+"="+name)
	var output bytes.Buffer
	child.Stdout, child.Stderr = &output, &output
	var exit *exec.ExitError
	require.ErrorAs(t, child.Run(), &exit, "want the suite to fail, got:\n%s", output.String())
	return output.String()
}

// quoteCase turns the name of a case into the pattern that matches it: go test shows white space as
// an underscore, and splits patterns at slashes.
func quoteCase(name string) string {
	pattern := bytes.ReplaceAll([]byte(name), []byte(" "), []byte("_"))
	pattern = bytes.ReplaceAll(pattern, []byte("/"), []byte("$/^"))
	return "^" + string(pattern) + "$"
}
