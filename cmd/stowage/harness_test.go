package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/localkv"
	"github.com/stowage-go/stowage/core/catalog"
	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/kvtest"
	"github.com/stowage-go/stowage/testkit/queuetest"
	"github.com/stowage-go/stowage/testkit/storagetest"
)

// compose composes the text of a configuration whose directory is dir, with the modules of this
// binary. The test closes the composition, whoever else does.
func compose(t testing.TB, dir, text string, clock ports.Clock) *catalog.Composition {
	t.Helper()
	cfg, err := config.Parse(filepath.Join(dir, "stowage.toml"), []byte(text))
	require.NoError(t, err)
	stores, err := newCatalog().Compose(cfg, catalog.Options{Clock: clock, Log: fixture.Logger(t)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stores.Close(context.Background())) })
	return stores
}

// kvHarness opens the store of [kv.default].
func kvHarness(text string, claims kvtest.Harness) kvtest.Harness {
	claims.Open = func(t testing.TB, clock ports.Clock) kvtest.Store {
		dir := t.TempDir()
		second := func(t testing.TB) (ports.KvStore, error) {
			kv, err := compose(t, dir, text, clock).Kv(t.Context(), "default")
			if err != nil {
				return nil, err
			}
			return kv.(ports.KvStore), nil
		}
		reopen := func(t testing.TB) ports.KvStore {
			kv, err := second(t)
			require.NoError(t, err)
			return kv
		}
		store := kvtest.Store{Kv: reopen(t), Reopen: reopen}
		if claims.Durable {
			store.Second = second
		}
		return store
	}
	claims.Clocked = true
	return claims
}

func kvMemory() kvtest.Harness {
	return kvHarness("[kv.default]\nmodule = \"memory\"\n", kvtest.Harness{})
}

func kvLocal(mode localkv.Mode) kvtest.Harness {
	text := fmt.Sprintf("[kv.default]\nmodule = \"localkv\"\nconfig = { mode = %q }\n", mode)
	return kvHarness(text, kvtest.Harness{
		Durable:        true,
		MultiHandle:    mode == localkv.MultiProcess,
		CanBackup:      true,
		CanCheckHealth: true,
	})
}

// storageHarness opens the storage of a configuration whose keys beside the module are given.
func storageHarness(module, keys string, claims storagetest.Harness) storagetest.Harness {
	claims.Open = func(t testing.TB, depth int64) storagetest.Store {
		dir, text := t.TempDir(), storageText(module, keys, depth)
		second := func(t testing.TB) (ports.Storage, error) {
			return compose(t, dir, text, ports.SystemClock()).Storage(t.Context())
		}
		reopen := func(t testing.TB) ports.Storage {
			storage, err := second(t)
			require.NoError(t, err)
			return storage
		}
		store := storagetest.Store{Storage: reopen(t), Reopen: reopen}
		if claims.Durable {
			store.Second = second
		}
		return store
	}
	return claims
}

func storageText(module, keys string, depth int64) string {
	text := fmt.Sprintf("[storage]\nmodule = %q\n[storage.config]\n%s\n", module, keys)
	if depth != 0 {
		text += fmt.Sprintf("journal_depth = %d\n", depth)
	}
	return text
}

func storageMemory() storagetest.Harness {
	return storageHarness("memory", "", storagetest.Harness{CanArchive: true, CanCountDeliveries: true})
}

func storageFile() storagetest.Harness {
	return storageHarness("sqlite", `path = "storage.sqlite"`, storagetest.Harness{
		Durable:            true,
		CanArchive:         true,
		CanCountDeliveries: true,
		CanBackup:          true,
		CanCheckHealth:     true,
	})
}

func storageInMemory() storagetest.Harness {
	return storageHarness("sqlite", `path = ":memory:"`, storagetest.Harness{
		CanArchive:         true,
		CanCountDeliveries: true,
		CanBackup:          true,
		CanCheckHealth:     true,
	})
}

func queueMemory() queuetest.Harness {
	return queuetest.Harness{
		Open: func(t testing.TB, clock ports.Clock) queuetest.Store {
			dir := t.TempDir()
			open := func(t testing.TB) ports.QueueStore {
				q, err := compose(t, dir, "[queue.orders]\nmodule = \"memory\"\n", clock).Queue(t.Context(), "orders")
				require.NoError(t, err)
				return q.(ports.QueueStore)
			}
			return queuetest.Store{Queue: open(t), Reopen: open}
		},
		Clocked:     true,
		CanSendBulk: true,
		CanRelease:  true,
	}
}

const localQueueText = "[queue.orders]\nmodule = \"localqueue\"\n"

// ownedQueue is a queue of an owner, closed with the composition that opened the owner.
type ownedQueue struct {
	ports.Queue
	stores *catalog.Composition
}

func (q ownedQueue) Close() error { return q.stores.Close(context.Background()) }

func queueLocal() queuetest.Harness {
	return queuetest.Harness{
		Open: func(t testing.TB, clock ports.Clock) queuetest.Store {
			dir := t.TempDir()
			second := func(t testing.TB) (ports.QueueStore, error) {
				stores := compose(t, dir, localQueueText, clock)
				q, err := stores.Queue(t.Context(), "orders")
				if err != nil {
					return nil, err
				}
				return ownedQueue{q, stores}, nil
			}
			reopen := func(t testing.TB) ports.QueueStore {
				q, err := second(t)
				require.NoError(t, err)
				return q
			}
			return queuetest.Store{Queue: reopen(t), Reopen: reopen, Second: second}
		},
		Clocked: true,
		Durable: true,
	}
}

// queueHTTP opens queues of the module queuehttp, whose server is a daemon's handler on a real
// loopback connection, before a localqueue owner of another composition.
func queueHTTP() queuetest.Harness {
	return queuetest.Harness{
		Open: func(t testing.TB, clock ports.Clock) queuetest.Store {
			served := newServedQueue(t, clock)
			second := func(t testing.TB) (ports.QueueStore, error) {
				q, err := compose(t, served.dir, served.text, clock).Queue(t.Context(), "orders")
				if err != nil {
					return nil, err
				}
				return q.(ports.QueueStore), nil
			}
			reopen := func(t testing.TB) ports.QueueStore {
				served.restart(t)
				q, err := second(t)
				require.NoError(t, err)
				return q
			}
			first, err := second(t)
			require.NoError(t, err)
			return queuetest.Store{Queue: first, Reopen: reopen, Second: second}
		},
		Clocked:        true,
		Durable:        true,
		MultiHandle:    true,
		Remote:         true,
		CanCheckHealth: true,
	}
}

// servedQueue is a daemon in this process: an owner behind the handler that the binary runs.
type servedQueue struct {
	dir   string
	text  string // the configuration of a client
	clock ports.Clock

	mu      sync.Mutex
	stores  *catalog.Composition
	handler *swapHandler
}

func newServedQueue(t testing.TB, clock ports.Clock) *servedQueue {
	t.Helper()
	s := &servedQueue{dir: t.TempDir(), clock: clock, handler: &swapHandler{}}
	server := httptest.NewUnstartedServer(s.handler)
	server.Config = newServer(s.handler, fixture.Logger(t))
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(func() { require.NoError(t, s.stop()) })
	s.start(t, server.URL)
	tokens := filepath.Join(s.dir, "served", "stowage-data", "queue-credentials", "orders")
	token, err := readToken(tokens)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "token"), []byte(token), 0o600))
	s.text = fmt.Sprintf("state_dir = \".\"\n[queue.orders]\nmodule = \"queuehttp\"\nconfig = { endpoint = \"%s/v1/queues/orders\", token_file = \"token\" }\n", server.URL)
	return s
}

func (s *servedQueue) start(t testing.TB, url string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stores = compose(t, filepath.Join(s.dir, "served"), localQueueText, s.clock)
	owner, err := s.stores.Owner(t.Context())
	require.NoError(t, err)
	handler, err := newHandler(handlerParts{
		owner:    owner,
		stateDir: filepath.Join(s.dir, "served", "stowage-data"),
		endpoint: url,
		log:      fixture.Logger(t),
	})
	require.NoError(t, err)
	s.handler.set(handler)
}

func (s *servedQueue) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stores.Close(context.Background())
}

// restart closes the owner and opens its directory again, so that what a reopened queue holds has
// come from the disk.
func (s *servedQueue) restart(t testing.TB) {
	t.Helper()
	require.NoError(t, s.stop())
	s.start(t, "http://127.0.0.1")
}

// swapHandler passes on to the handler that was set last.
type swapHandler struct {
	mu      sync.RWMutex
	handler http.Handler
}

func (h *swapHandler) set(handler http.Handler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handler = handler
}

func (h *swapHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.RLock()
	handler := h.handler
	h.mu.RUnlock()
	handler.ServeHTTP(w, r)
}
