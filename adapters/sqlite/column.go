package sqlite

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// columns reads the columns of a row, whose storage classes another program may have got wrong. The
// first fault is kept, and what comes after it is of no worth.
type columns struct {
	row sqlitefile.Row
	err error
}

func (c *columns) fault(i int, name, wanted string) {
	if c.err == nil {
		c.err = fmt.Errorf("its %s is of storage class %s, not %s", name, sqlitefile.StorageClass(c.row.Value(i)), wanted)
	}
}

func (c *columns) text(i int, name string) string {
	text, ok := c.row.Value(i).(string)
	if !ok {
		c.fault(i, name, "TEXT")
	}
	return text
}

func (c *columns) integer(i int, name string) int64 {
	n, ok := c.row.Value(i).(int64)
	if !ok {
		c.fault(i, name, "INTEGER")
	}
	return n
}

// natural is an integer that is not negative.
func (c *columns) natural(i int, name string) uint64 {
	n := c.integer(i, name)
	if n < 0 && c.err == nil {
		c.err = fmt.Errorf("its %s is negative", name)
	}
	return uint64(n)
}

func (c *columns) cursor(i int) types.Cursor {
	return types.Cursor{Primary: c.natural(i, "cursor_primary"), Secondary: c.natural(i+1, "cursor_secondary")}
}

func (c *columns) json(i int, name string) json.RawMessage {
	text := c.text(i, name)
	if c.err == nil && (!utf8.ValidString(text) || !json.Valid([]byte(text))) {
		c.err = fmt.Errorf("its %s is not valid JSON", name)
	}
	return json.RawMessage(text)
}

func (c *columns) meta(i int) (meta types.GateMeta) {
	if c.row.Value(i) != nil {
		ts := c.integer(i, "last_emit_ts")
		meta.LastEmitTS = &ts
	}
	switch aux := c.row.Value(i + 1).(type) {
	case nil:
	case []byte:
		meta.Aux = aux
	default:
		c.fault(i+1, "aux", "BLOB or NULL")
	}
	return meta
}

// undecodable is the error of a row that is there and cannot be read. It names the row and never what
// it holds.
func (s *Storage) undecodable(op, table, key string, why error) *ports.Error {
	return ports.Errorf(ports.CodeBackendFailed, op,
		"the row %s of table %s in %s cannot be read: %w; mend or delete it", key, table, s.file.Path(), why).
		WithReason(ports.ReasonUndecodable)
}

// key joins the parts of a row's key. What another program wrote may be long, and anything.
func key(parts ...any) string {
	const most = 200
	words := make([]string, len(parts))
	for i, part := range parts {
		words[i] = fmt.Sprint(part)
		if len(words[i]) > most {
			words[i] = words[i][:most] + "…"
		}
	}
	return fmt.Sprintf("%q", strings.Join(words, "/"))
}
