package sqlite

import (
	"errors"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/sqlitefile"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/testkit/storagetest"
	"github.com/stowage-go/stowage/types"
)

// config is a configuration by toml names, as strict as that of a catalog.
type config map[string]any

func (c config) Decode(into any) error {
	target := reflect.ValueOf(into).Elem()
	known := 0
	for i := range target.NumField() {
		value, ok := c[target.Type().Field(i).Tag.Get("toml")]
		if !ok {
			continue
		}
		known++
		target.Field(i).Set(reflect.ValueOf(value))
	}
	if known != len(c) {
		return ports.Errorf(ports.CodeInvalidConfig, "decode", "unknown key in %v", c)
	}
	return nil
}

var errInjected = errors.New("a fault of the test")

// faultLine makes the nth statement of a call fail.
type faultLine struct {
	left atomic.Int64 // 0: none
}

func (f *faultLine) failAt(n int) { f.left.Store(int64(n)) }

func (f *faultLine) before(string) error {
	if f.left.Load() > 0 && f.left.Add(-1) == 0 {
		return errInjected
	}
	return nil
}

// moduleConfig is that of a storage with a journal of the depth.
func moduleConfig(path string, depth int64) config {
	c := config{"path": path}
	if depth != 0 {
		c["journal_depth"] = depth
	}
	return c
}

// fileHarness makes storages the way a catalog does.
func fileHarness() storagetest.Harness {
	return storagetest.Harness{
		Open: func(t testing.TB, depth int64) storagetest.Store {
			env := fixture.Env(t, "contract", fixture.NewClock(fixture.Epoch()))
			path := filepath.Join(env.StateDir, "contract.sqlite")
			faults := new(faultLine)
			second := func(t testing.TB) (ports.Storage, error) {
				t.Helper()
				return Module().Open(t.Context(), env, moduleConfig(path, depth))
			}
			reopen := func(t testing.TB) ports.Storage {
				t.Helper()
				storage, err := second(t)
				require.NoError(t, err)
				storage.(*Storage).beforeStatement = faults.before
				return storage
			}
			first := reopen(t)
			current := first
			return storagetest.Store{
				Storage: first,
				Reopen: func(t testing.TB) ports.Storage {
					current = reopen(t)
					return current
				},
				Second: second,
				FailAt: faults.failAt,
				InjectUndecodable: func(t testing.TB, pipeline types.PipelineID) (ports.Storage, int) {
					require.NoError(t, current.Close())
					entries := []string{`[]`, `"text"`, `{}`, `{"match_id":7}`, `{"match_id":"half","monitor":[]}`, `null`}
					file, err := openRaw(path, Schema())
					require.NoError(t, err)
					require.NoError(t, file.Write(t.Context(), "test", func(tx *sqlitefile.Tx) error {
						for _, entry := range entries {
							if _, err := tx.Exec(insertLetter, string(pipeline), entry); err != nil {
								return err
							}
						}
						return nil
					}))
					require.NoError(t, file.Close())
					current = reopen(t)
					return current, len(entries)
				},
			}
		},
		Durable:            true,
		CanArchive:         true,
		CanCountDeliveries: true,
		CanBackup:          true,
		CanCheckHealth:     true,
	}
}

func memoryHarness() storagetest.Harness {
	return storagetest.Harness{
		Open: func(t testing.TB, depth int64) storagetest.Store {
			env := fixture.Env(t, "contract", fixture.NewClock(fixture.Epoch()))
			faults := new(faultLine)
			open := func(t testing.TB) ports.Storage {
				t.Helper()
				storage, err := Module().Open(t.Context(), env, moduleConfig(sqlitefile.InMemory, depth))
				require.NoError(t, err)
				storage.(*Storage).beforeStatement = faults.before
				return storage
			}
			return storagetest.Store{Storage: open(t), Reopen: open, FailAt: faults.failAt}
		},
		CanArchive:         true,
		CanCountDeliveries: true,
		CanBackup:          true,
		CanCheckHealth:     true,
	}
}
