package kvtest_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/kvtest"
	"github.com/stowage-go/stowage/testkit/model"
	"github.com/stowage-go/stowage/types"
)

// brokenVariable names the broken store that a child process runs the suite on.
const brokenVariable = "STOWAGE_KVTEST_BROKEN"

// brokenStores are stores with one fault each, and the case of the suite that must see it.
var brokenStores = map[string]struct {
	mustFail string
	broken   func(ports.KvStore) ports.KvStore
}{
	"keeps an expired entry": {"expiry/an entry is absent from the very millisecond of its expiry", func(kv ports.KvStore) ports.KvStore {
		return &brokenPut{kv, func(o *types.PutOptions) {
			if o.TTL > 0 {
				o.TTL += time.Millisecond
			}
		}}
	}},
	"lets a TTL stay": {"expiry/a put without TTL clears an old one", func(kv ports.KvStore) ports.KvStore {
		return &brokenPut{kv, func(o *types.PutOptions) {
			if o.TTL == 0 {
				o.TTL = time.Second
			}
		}}
	}},
	"overwrites whatever is there": {"condition/if absent: a live key is left alone", func(kv ports.KvStore) ports.KvStore {
		return &brokenPut{kv, func(o *types.PutOptions) {
			if o.If.Absent() {
				o.If = types.Always()
			}
		}}
	}},
	"applies a stale version": {"race/of racing puts if version one wins", func(kv ports.KvStore) ports.KvStore {
		return &brokenPut{kv, func(o *types.PutOptions) { o.If = types.Always() }}
	}},
	"shares its memory": {"value/the caller's slice stays the caller's", func(kv ports.KvStore) ports.KvStore {
		return &sharing{KvStore: kv, last: map[string][]byte{}}
	}},
	"ignores a context": {"life/a call whose context was cancelled leaves nothing behind", func(kv ports.KvStore) ports.KvStore {
		return ignoresContext{kv}
	}},
	"gives a cursor at the end": {"scan/a cursor comes back only if more live entries remain", func(kv ports.KvStore) ports.KvStore {
		return alwaysCursor{kv}
	}},
}

type brokenPut struct {
	ports.KvStore
	change func(*types.PutOptions)
}

func (b *brokenPut) Put(ctx context.Context, key string, value []byte, opts types.PutOptions) (types.PutResult, error) {
	b.change(&opts)
	return b.KvStore.Put(ctx, key, value, opts)
}

type sharing struct {
	ports.KvStore
	last map[string][]byte
}

func (s *sharing) Put(ctx context.Context, key string, value []byte, opts types.PutOptions) (types.PutResult, error) {
	res, err := s.KvStore.Put(ctx, key, value, opts)
	if res.Applied {
		s.last[key] = value
	}
	return res, err
}

func (s *sharing) Get(ctx context.Context, key string) (types.KvEntry, bool, error) {
	entry, ok, err := s.KvStore.Get(ctx, key)
	if ok {
		entry.Value = s.last[key]
	}
	return entry, ok, err
}

type ignoresContext struct{ ports.KvStore }

func (i ignoresContext) Put(ctx context.Context, key string, value []byte, opts types.PutOptions) (types.PutResult, error) {
	return i.KvStore.Put(context.WithoutCancel(ctx), key, value, opts)
}

type alwaysCursor struct{ ports.KvStore }

func (a alwaysCursor) ScanPrefix(ctx context.Context, prefix string, opts types.ScanOptions) (types.KvPage, error) {
	page, err := a.KvStore.ScanPrefix(ctx, prefix, opts)
	if n := len(page.Entries); n > 0 && page.Cursor == "" {
		page.Cursor = ports.EncodeCursor(prefix, page.Entries[n-1].Key)
	}
	return page, err
}

// TestSuiteOnABrokenStore is what the child processes of TestSuiteSeesBrokenStores run.
func TestSuiteOnABrokenStore(t *testing.T) {
	store, ok := brokenStores[os.Getenv(brokenVariable)]
	if !ok {
		t.Skip("runs in the child processes of TestSuiteSeesBrokenStores only")
	}
	kvtest.Run(t, kvtest.Harness{
		Open: func(_ testing.TB, clock ports.Clock) kvtest.Store {
			return kvtest.Store{Kv: store.broken(model.NewKv(clock))}
		},
		Clocked: true,
	})
}

func TestSuiteSeesBrokenStores(t *testing.T) {
	t.Parallel()
	for name, store := range brokenStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output := failingChild(t, name, store.mustFail)
			require.Contains(t, output, "--- FAIL: TestSuiteOnABrokenStore/", "want a case of the suite to fail, got:\n%s", output)
		})
	}
}

// failingChild runs one case of the suite on a broken store in a process of its own, and returns
// what it printed.
func failingChild(t *testing.T, name, testCase string) string {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestSuiteOnABrokenStore$/"+quoteCase(testCase))
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
