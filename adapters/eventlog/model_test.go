package eventlog

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// machine holds a log against a plain list, whatever fails and whenever it is opened anew.
type machine struct {
	t        *testing.T
	faults   *faults
	o        Options
	log      *Log
	stored   []string      // what was acknowledged
	read     []types.Event // what has been read, by place in stored
	position int           // of the reader in stored
	settled  int           // so many are dealt with
	next     int
}

func TestLogIsAListWhateverFails(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		m := &machine{t: t, faults: &faults{lazy: true}}
		m.o = m.faults.options(t.TempDir())
		m.o.MaxBytes, m.o.SegmentBytes, m.o.Log = 128<<10, minSegmentBytes, fixture.Logger(t)
		m.o.Clock = fixture.NewClock(fixture.Epoch())
		m.open(r)
		defer func() { require.NoError(r, m.log.Close()) }()
		r.Repeat(map[string]func(*rapid.T){
			"accept": m.accept, "fail": m.fail, "read": m.readSome, "settle": m.settle, "reopen": m.reopen,
		})
		m.readAll(r)
		require.Equal(r, len(m.stored), m.position)
	})
}

func (m *machine) open(r *rapid.T) {
	m.o.From = nil
	if m.settled > 0 {
		m.o.From = &m.read[m.settled-1].Cursor
	}
	log, err := Open(m.t.Context(), m.o)
	require.NoError(r, err)
	m.log, m.position = log, m.settled
}

func (m *machine) draw(r *rapid.T) []types.Event {
	var events []types.Event
	for _, size := range rapid.SliceOfN(rapid.IntRange(0, 1200), 1, 5).Draw(r, "sizes") {
		events = append(events, types.Event{Data: fmt.Appendf(nil, `"%d%s"`, m.next, strings.Repeat("x", size))})
		m.next++
	}
	return events
}

func (m *machine) accept(r *rapid.T) {
	events := m.draw(r)
	err := m.log.Accept(m.t.Context(), events)
	if m.log.total > m.o.MaxBytes/2 && err != nil {
		require.ErrorIs(r, err, ports.ErrDiskFull)
		return
	}
	require.NoError(r, err)
	m.stored = append(m.stored, data(events)...)
}

func (m *machine) fail(r *rapid.T) {
	events := m.draw(r)
	m.faults.set(func(f *faults) {
		if rapid.Bool().Draw(r, "write") {
			f.write, f.part = syscall.EIO, rapid.IntRange(0, 3000).Draw(r, "part")
		} else {
			f.sync = syscall.EIO
		}
		if rapid.Bool().Draw(r, "truncate") {
			f.truncate = syscall.EIO
		}
	})
	err := m.log.Accept(m.t.Context(), events)
	m.faults.set(func(f *faults) { f.write, f.sync, f.truncate = nil, nil, nil })
	require.ErrorIs(r, err, ports.ErrBackendFailed)
	if m.log.out == nil {
		// No file could be made in place of the one that failed: until there is one, a crash may bring back
		// what was refused.
		require.NoError(r, m.log.roll())
	}
}

func (m *machine) readSome(r *rapid.T) {
	if m.position == len(m.stored) {
		return
	}
	m.readBatch(r, rapid.SampledFrom([]int{1, 2, 5, 100}).Draw(r, "most"))
}

func (m *machine) readBatch(r *rapid.T, most int) {
	events, err := m.log.Read(m.t.Context(), most)
	require.NoError(r, err)
	require.LessOrEqual(r, len(events), most)
	for _, e := range events {
		require.NoError(r, e.Err)
		require.Less(r, m.position, len(m.stored), "an event that nobody was told is stored: %s", e.Data)
		require.Equal(r, m.stored[m.position], string(e.Data))
		if m.position < len(m.read) {
			require.Equal(r, m.read[m.position].Identity(), e.Identity())
			require.Equal(r, m.read[m.position].Cursor, e.Cursor)
		} else {
			if m.position > 0 {
				require.Positive(r, e.Cursor.Compare(m.read[m.position-1].Cursor))
			}
			m.read = append(m.read, e)
		}
		m.position++
	}
}

func (m *machine) readAll(r *rapid.T) {
	for m.position < len(m.stored) {
		m.readBatch(r, 100)
	}
	require.Empty(r, drain(m.t, m.log))
}

func (m *machine) settle(r *rapid.T) {
	if m.position == 0 {
		return
	}
	n := rapid.IntRange(max(1, m.settled), max(m.position, m.settled, 1)).Draw(r, "through")
	require.NoError(r, m.log.Settle(m.t.Context(), m.read[n-1].Cursor))
	m.settled = n
}

func (m *machine) reopen(r *rapid.T) {
	require.NoError(r, m.log.Close())
	m.open(r)
}
