package gate_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/stowage-go/stowage/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// event is the nth of a stream, with a time in milliseconds.
func event(n int, ts int64, key string) types.Event {
	return types.Event{Cursor: types.Cursor{Primary: uint64(n)}, TS: ts, Data: json.RawMessage(fmt.Sprintf(`{"key":%q}`, key))}
}

func cursor(n int) *types.Cursor { return &types.Cursor{Primary: uint64(n)} }
