package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

// sendText sends text as a file and returns the report, its error, and what the queue holds then.
func sendText(t *testing.T, text string, from int, wrap func(ports.Queue) ports.Queue) (sendReport, error, []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "messages")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	q := model.NewQueue(fixture.NewClock(fixture.Epoch()))
	var target ports.Queue = q
	if wrap != nil {
		target = wrap(q)
	}
	s := &lineSender{queue: target, lines: newLineReader(t.Context(), f), from: from, rejected: func(rejectedLine) {}, moved: func(int64, int, int) {}}
	report, err := s.run(t.Context())
	return report, err, drain(t, q)
}

func drain(t *testing.T, q ports.Queue) []string {
	t.Helper()
	var all []string
	for {
		messages, err := q.Receive(t.Context(), types.ReceiveOptions{Max: ports.MaxBatch})
		require.NoError(t, err)
		if len(messages) == 0 {
			return all
		}
		for _, m := range messages {
			all = append(all, m.Payload.Data)
		}
	}
}

func TestSendKeepsTheOrderOfLines(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	var want []string
	for i := range 1707 {
		fmt.Fprintf(&text, "{\"n\":%d}\n", i)
		want = append(want, fmt.Sprintf(`{"n":%d}`, i))
	}
	report, err, got := sendText(t, text.String(), 1, nil)
	require.NoError(t, err)
	assert.Equal(t, 1707, report.Sent)
	assert.Equal(t, want, got)
	assert.Equal(t, exitDone, sendExit(report, err))
}

func TestSendRejectsBadLinesAlone(t *testing.T) {
	t.Parallel()
	lines := []string{
		"\xef\xbb\xbf{\"a\":1}\r", // 1: with a byte order mark and a Windows line end
		"",                        // 2: blank
		"not json",                // 3
		`{"a":1,"a":2}`,           // 4: a member twice
		" \t\r",                   // 5: blank
		`{"b": [ 2 ]}`,            // 6
		"\"" + strings.Repeat("x", ports.MaxPayloadBytes-1) + "\"", // 7: one byte too many
		"\"" + strings.Repeat("x", maxLine) + "\"",                 // 8: too long to read
		`"` + "\xff" + `"`, // 9: not UTF-8
		`"last"`,           // 10: without a line end
	}
	report, err, got := sendText(t, strings.Join(lines, "\n"), 1, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{`{"a":1}`, `{"b":[2]}`, `"last"`}, got)
	assert.Equal(t, 3, report.Sent)
	assert.Equal(t, 5, report.Rejected)
	var numbers []int
	for _, r := range report.RejectedLines {
		numbers = append(numbers, r.Line)
		assert.Equal(t, ports.CodeInvalidInput, r.Code)
	}
	assert.Equal(t, []int{3, 4, 7, 8, 9}, numbers)
	assert.Equal(t, exitPartly, sendExit(report, err))
}

func TestSendStartsAtALine(t *testing.T) {
	t.Parallel()
	report, err, got := sendText(t, "1\n2\nbad\n4\n", 4, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"4"}, got)
	assert.Zero(t, report.Rejected)
}

func TestSendRefusesUTF16(t *testing.T) {
	t.Parallel()
	_, err, got := sendText(t, "\xff\xfe1\x00\n\x00", 1, nil)
	require.ErrorIs(t, err, ports.ErrInvalidInput)
	assert.ErrorContains(t, err, "UTF-16")
	assert.Empty(t, got)
}

// breaking fails the nth batch: with an error that says nothing was done, or after the effect.
type breaking struct {
	ports.Queue
	calls, nth int
	err        error
	after      bool
}

func (b *breaking) SendBatch(ctx context.Context, payloads []types.Payload) ([]types.SendOutcome, error) {
	b.calls++
	if b.calls != b.nth {
		return b.Queue.SendBatch(ctx, payloads)
	}
	if b.after {
		if _, err := b.Queue.SendBatch(ctx, payloads); err != nil {
			return nil, err
		}
	}
	return nil, b.err
}

func TestSendStopsAtAFailureAndSaysWhatIsKnown(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 45 {
		fmt.Fprintf(&text, "%d\n", i+1)
		if i == 19 {
			text.WriteString("\n") // line 21 is blank
		}
	}
	lost := ports.Errorf(ports.CodeOutcomeUnknown, "queue.sendBatch", "the connection broke")
	down := ports.Errorf(ports.CodeQueueOperationFailed, "queue.sendBatch", "nothing answers").WithReason(ports.ReasonUnavailable)
	for _, test := range []struct {
		name                               string
		breaking                           breaking
		sent, unknown, stopped, left, code int
		lines                              *lineRange
	}{
		{"in the middle, unknown", breaking{nth: 3, err: lost, after: true}, 20, 10, 32, 15, exitUnknown, &lineRange{22, 31}},
		{"in the middle, nothing done", breaking{nth: 3, err: down}, 20, 0, 22, 25, exitPartly, nil},
		{"at the start, nothing done", breaking{nth: 1, err: down}, 0, 0, 1, 45, exitUnavailable, nil},
		{"at the end, unknown", breaking{nth: 5, err: lost}, 40, 5, 0, 0, exitUnknown, &lineRange{42, 46}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			report, err, got := sendText(t, text.String(), 1, func(q ports.Queue) ports.Queue {
				b := test.breaking
				b.Queue = q
				return &b
			})
			require.ErrorIs(t, err, test.breaking.err)
			assert.Equal(t, test.sent, report.Sent)
			assert.Equal(t, test.unknown, report.Unknown)
			assert.Equal(t, test.lines, report.UnknownLines)
			assert.Equal(t, test.stopped, report.StoppedAt)
			assert.Equal(t, test.left, report.NotTried)
			assert.Equal(t, test.code, sendExit(report, err))
			if !test.breaking.after {
				assert.Len(t, got, test.sent)
			}
		})
	}
}

func TestSendStopsBetweenBatchesWhenInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	q := model.NewQueue(fixture.NewClock(fixture.Epoch()))
	path := filepath.Join(t.TempDir(), "messages")
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("1\n", 100)), 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	stop := &interruption{os.Interrupt}
	s := &lineSender{queue: q, lines: newLineReader(t.Context(), f), from: 1, rejected: func(rejectedLine) {}, moved: func(_ int64, sent, _ int) {
		if sent == 30 {
			cancel(stop)
		}
	}}
	report, err := s.run(ctx)
	require.ErrorIs(t, err, stop)
	assert.Equal(t, 30, report.Sent)
	assert.Equal(t, 70, report.NotTried)
	assert.Equal(t, 31, report.StoppedAt)
	assert.Len(t, drain(t, q), 30)
}

func TestSendFromAPipeDoesNotWaitForAFullBatch(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	sent := make(chan int, 10)
	s := &lineSender{
		queue:    model.NewQueue(fixture.NewClock(fixture.Epoch())),
		lines:    newLineReader(t.Context(), r),
		from:     1,
		rejected: func(rejectedLine) {},
		moved:    func(_ int64, n, _ int) { sent <- n },
	}
	done := make(chan error, 1)
	go func() {
		_, err := s.run(t.Context())
		done <- err
	}()
	_, err = w.WriteString("1\n2\n3\n\"half of a")
	require.NoError(t, err)
	for n := 0; n < 3; n = <-sent {
	}
	_, err = w.WriteString(" line\"\n")
	require.NoError(t, err)
	for n := 0; n < 4; n = <-sent {
	}
	require.NoError(t, w.Close())
	require.NoError(t, <-done)
}

func TestSendReportsTheOutcomesOfTheQueue(t *testing.T) {
	t.Parallel()
	full := ports.Errorf(ports.CodeQueueOperationFailed, "queue.sendBatch", "no space").WithReason(ports.ReasonDiskFull)
	report, err, _ := sendText(t, "1\n2\n3\n", 1, func(q ports.Queue) ports.Queue {
		return outcomes{q, []types.SendOutcome{{Status: types.StatusSent}, {Status: types.StatusRejected, Err: full}, {Status: types.StatusUnknown, Err: errors.New("who knows")}}}
	})
	require.Error(t, err)
	assert.Equal(t, 1, report.Sent)
	assert.Equal(t, []rejectedLine{{2, ports.CodeQueueOperationFailed, "no space"}}, report.RejectedLines)
	assert.Equal(t, &lineRange{3, 3}, report.UnknownLines)
	assert.Equal(t, exitUnknown, sendExit(report, err))
}

type outcomes struct {
	ports.Queue
	list []types.SendOutcome
}

func (o outcomes) SendBatch(context.Context, []types.Payload) ([]types.SendOutcome, error) {
	return o.list, nil
}
