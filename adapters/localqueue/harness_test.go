package localqueue

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/queuetest"
)

// harness runs the contract on a queue in a directory of each test's own.
func harness() queuetest.Harness {
	return queuetest.Harness{
		Open: func(t testing.TB, clock ports.Clock) queuetest.Store {
			dir := t.TempDir()
			open := func(t testing.TB) (ports.QueueStore, error) {
				q, err := Open(t.Context(), Options{Dir: dir, Clock: clock, Log: fixture.Logger(t)})
				if err != nil {
					return nil, err
				}
				return q, nil
			}
			reopen := func(t testing.TB) ports.QueueStore {
				q, err := open(t)
				require.NoError(t, err)
				return q
			}
			return queuetest.Store{
				Queue:  reopen(t),
				Reopen: reopen,
				Second: open,
				InjectUndecodable: func(t testing.TB) (ports.QueueStore, []int64) {
					ids := plant(t, dir, undecodableRows()...)
					return reopen(t), ids
				},
			}
		},
		Clocked:        true,
		Durable:        true,
		CanSendBulk:    true,
		CanRelease:     true,
		CanDiscard:     true,
		CanBackup:      true,
		CanCheckHealth: true,
	}
}

// planted is a row as somebody else might have written it, its columns as SQL literals.
type planted struct {
	kind, data, enqueued, visible, attempt, receipt string
}

// plant writes rows beneath the port into a queue that is closed, and returns their ids.
func plant(t testing.TB, dir string, rows ...planted) []int64 {
	t.Helper()
	file := openRaw(t, dir)
	defer func() { require.NoError(t, file.Close()) }()
	var ids []int64
	require.NoError(t, file.Write(t.Context(), "plant", func(tx *sqlitefile.Tx) error {
		for _, r := range rows {
			if _, err := tx.Exec(`INSERT INTO messages (payload_type, payload_data, enqueued_at, visible_at, attempt, receipt_handle) VALUES (` +
				r.kind + `, ` + r.data + `, ` + r.enqueued + `, ` + r.visible + `, ` + r.attempt + `, ` + r.receipt + `)`); err != nil {
				return err
			}
			ids = append(ids, tx.LastInsertID())
		}
		return nil
	}))
	return ids
}

// undecodableRows has one row of each kind that cannot be decoded, enqueued at the beginning of time
// and due.
func undecodableRows() []planted {
	good := planted{"'text'", "'t'", "1", "1", "0", "NULL"}
	var rows []planted
	for _, change := range []func(*planted){
		func(r *planted) { r.kind = "'xml'" },
		func(r *planted) { r.kind = "x'74657874'" },
		func(r *planted) { r.kind, r.data = "'json'", "'{'" },
		func(r *planted) { r.kind, r.data = "'json'", "''" },
		func(r *planted) { r.data = "x'00'" },
		func(r *planted) { r.data = "CAST(x'ff' AS TEXT)" },
		func(r *planted) { r.attempt = "-1" },
		func(r *planted) { r.attempt = "4294967296" },
		func(r *planted) { r.attempt = "'many'" },
		func(r *planted) { r.attempt = "0.5" },
		func(r *planted) { r.enqueued = "'soon'" },
		func(r *planted) { r.enqueued = "1.5" },
		func(r *planted) { r.visible = "0.5" },
		func(r *planted) { r.visible, r.enqueued = "0.5", "0.5" },
		func(r *planted) { r.visible, r.enqueued = "'now'", "'now'" },
		func(r *planted) { r.receipt = "x'01'" },
		func(r *planted) { r.receipt, r.visible = "x'01'", "2" },
	} {
		r := good
		change(&r)
		rows = append(rows, r)
	}
	return rows
}
