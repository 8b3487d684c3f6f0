package localqueue

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"time"
	"unicode/utf8"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// maxAttempt is the largest count of deliveries that the format holds.
const maxAttempt = math.MaxUint32

// stored is a row as it was read.
type stored struct {
	payload  types.Payload
	enqueued int64
	visible  int64
	attempt  int64
	receipt  string // empty for NULL
}

// read reads the row with the id. found is false if there is none; problem says why the row cannot
// be decoded, without its content.
func read(c *sqlitefile.Conn, id int64) (s stored, found bool, problem, err error) {
	err = c.Query(sqlRead, func(row sqlitefile.Row) error {
		found = true
		s, problem = decode(row)
		return nil
	}, id)
	return s, found, problem, err
}

// decode turns a row of sqlRead into a message. What it accepts is all that the original accepts, and
// no more than a receiver can be given (R078, R079). The times and the attempt are filled in as far
// as they can be, also when there is a problem.
func decode(row sqlitefile.Row) (stored, error) {
	s := stored{enqueued: row.Int64(2), visible: row.Int64(3), attempt: row.Int64(4), receipt: row.Text(5)}
	var err error
	switch {
	case !isInteger(row.Value(2)):
		err = errors.New("enqueued_at is not an integer")
	case !isInteger(row.Value(3)):
		err = errors.New("visible_at is not an integer")
	case !isInteger(row.Value(4)):
		err = errors.New("attempt is not an integer")
	case s.attempt < 0 || s.attempt >= maxAttempt:
		err = errors.New("attempt is out of range")
	case row.Value(5) != nil && !isText(row.Value(5)):
		err = errors.New("receipt_handle is not text")
	case !isText(row.Value(0)) || !isText(row.Value(1)):
		err = errors.New("payload_type or payload_data is not text")
	default:
		s.payload, err = decodePayload(row.Text(0), row.Text(1))
	}
	return s, err
}

func decodePayload(kind, data string) (types.Payload, error) {
	if !utf8.ValidString(data) {
		return types.Payload{}, errors.New("payload_data is not valid UTF-8")
	}
	switch types.PayloadType(kind) {
	case types.PayloadText:
		return types.Text(data), nil
	case types.PayloadJSON:
		return decodeJSON(data)
	}
	return types.Payload{}, errors.New("payload_type is neither json nor text")
}

// decodeJSON takes any valid JSON: a row that another writer stored may have what a send would
// refuse, such as a member twice.
func decodeJSON(data string) (types.Payload, error) {
	if compact, err := ports.CompactJSON(data); err == nil {
		return types.Payload{Type: types.PayloadJSON, Data: compact}, nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(data)); err != nil {
		return types.Payload{}, errors.New("payload_data is not valid JSON")
	}
	return types.Payload{Type: types.PayloadJSON, Data: compact.String()}, nil
}

func isInteger(v any) bool { _, ok := v.(int64); return ok }
func isText(v any) bool    { _, ok := v.(string); return ok }

func timeOf(millis int64) time.Time { return time.UnixMilli(millis) }
