package sqlite

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
)

// open opens a storage that the test closes at its end, if it has not done so itself.
func open(t testing.TB, options Options) *Storage {
	t.Helper()
	if options.Path == "" {
		options.Path = filepath.Join(t.TempDir(), "storage.sqlite")
	}
	if options.Log == nil {
		options.Log = fixture.Logger(t)
	}
	s, err := Open(context.Background(), options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// openRaw opens a database beneath the port, to look at rows or to plant odd ones. It goes through the
// package that the storage uses, so that nothing else ever opens the file.
func openRaw(path string, schema sqlitefile.Schema) (*sqlitefile.File, error) {
	return sqlitefile.Open(context.Background(), sqlitefile.Options{
		Path:      path,
		Schema:    schema,
		Kind:      "test storage",
		Failure:   ports.CodeBackendFailed,
		Ownership: sqlitefile.ExclusiveDirectory, // leaves no lock file behind
		PageSize:  1024,
		Log:       slog.New(slog.DiscardHandler),
	})
}

// queryRows runs a query beneath the port.
func queryRows(t testing.TB, file *sqlitefile.File, query string, args ...any) [][]any {
	t.Helper()
	rows := [][]any{}
	require.NoError(t, file.Read(context.Background(), "test", func(c *sqlitefile.Conn) error {
		return c.Query(query, func(r sqlitefile.Row) error {
			row := make([]any, len(r))
			for i := range r {
				row[i] = r.Value(i)
			}
			rows = append(rows, row)
			return nil
		}, args...)
	}))
	return rows
}

// execute runs statements beneath the port, in one transaction.
func execute(t testing.TB, file *sqlitefile.File, statements ...string) {
	t.Helper()
	require.NoError(t, file.Write(context.Background(), "test", func(tx *sqlitefile.Tx) error {
		for _, statement := range statements {
			if _, err := tx.Exec(statement); err != nil {
				return err
			}
		}
		return nil
	}))
}

// plant changes the file of a closed storage, as another program could.
func plant(t testing.TB, path string, statements ...string) {
	t.Helper()
	file, err := openRaw(path, Schema())
	require.NoError(t, err)
	execute(t, file, statements...)
	require.NoError(t, file.Close())
}
