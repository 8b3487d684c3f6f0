package kvtest

import (
	"context"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// method is one call of the port, with input that is good.
type method struct {
	name string
	call func(context.Context, ports.Kv) error
}

func methods(version types.KvVersion) []method {
	return []method{
		{"get", func(ctx context.Context, kv ports.Kv) error { _, _, err := kv.Get(ctx, "k"); return err }},
		{"exists", func(ctx context.Context, kv ports.Kv) error { _, err := kv.Exists(ctx, "k"); return err }},
		{"put", func(ctx context.Context, kv ports.Kv) error {
			_, err := kv.Put(ctx, "k", []byte("new"), types.PutOptions{})
			return err
		}},
		{"put if absent", func(ctx context.Context, kv ports.Kv) error {
			_, err := kv.Put(ctx, "absent", []byte("new"), types.PutOptions{If: types.IfAbsent()})
			return err
		}},
		{"put if version", func(ctx context.Context, kv ports.Kv) error {
			_, err := kv.Put(ctx, "k", []byte("new"), types.PutOptions{If: types.IfVersion(version)})
			return err
		}},
		{"delete", func(ctx context.Context, kv ports.Kv) error {
			_, err := kv.Delete(ctx, "k", types.Always())
			return err
		}},
		{"delete if version", func(ctx context.Context, kv ports.Kv) error {
			_, err := kv.Delete(ctx, "k", types.IfVersion(version))
			return err
		}},
		{"scan", func(ctx context.Context, kv ports.Kv) error {
			_, err := kv.ScanPrefix(ctx, "k", types.ScanOptions{})
			return err
		}},
	}
}

var lifeCases = []testCase{
	{name: "a call whose context was cancelled leaves nothing behind", run: func(f *fix) {
		version := f.put("k", "v")
		for _, m := range methods(version) {
			require.ErrorIs(f, m.call(fixture.Cancelled(f), f.kv), context.Canceled, m.name)
		}
		f.wantValue("k", "v")
		require.Equal(f, version, f.get("k").Version)
		f.wantAbsent("absent")
	}},
	{name: "a call whose deadline has passed leaves nothing behind", run: func(f *fix) {
		version := f.put("k", "v")
		ctx, cancel := context.WithDeadline(f.ctx, time.Unix(0, 0))
		defer cancel()
		for _, m := range methods(version) {
			require.ErrorIs(f, m.call(ctx, f.kv), context.DeadlineExceeded, m.name)
		}
		require.Equal(f, version, f.get("k").Version)
		f.wantAbsent("absent")
	}},
	{name: "a closed store says so", run: func(f *fix) {
		store := f.h.Open(f, f.clock).Kv
		res, err := store.Put(f.ctx, "k", []byte("v"), types.PutOptions{})
		require.NoError(f, err)
		closeKv(f, store)
		for _, m := range methods(res.Version) {
			require.ErrorIs(f, m.call(f.ctx, store), ports.ErrStoreClosed, m.name)
		}
	}},
	{name: "closing twice is closing once", run: func(f *fix) {
		store := f.h.Open(f, f.clock).Kv
		closeKv(f, store)
		closeKv(f, store)
	}},
	{name: "two fresh stores share nothing", run: func(f *fix) {
		other := newFix(f.T, f.h)
		f.put("k", "v")
		other.wantAbsent("k")
	}},
	{name: "durability is as claimed", run: func(f *fix) {
		if !f.h.Durable && f.store.Reopen == nil {
			f.Skip("the harness claims no durability and cannot reopen")
		}
		require.NotNil(f, f.store.Reopen, "a durable harness reopens")
		version := f.put("k", string(fixture.Value(ports.MaxValueBytes)))
		f.putTTL("t", "v", time.Minute)
		f.put("gone", "v")
		f.delete("gone", types.Always(), true)
		f.putMany(numbered("p", 3), 0)
		cursor := f.scan("p", 2, "").Cursor
		all := f.scanAll("p", 0)

		f.reopen()
		if !f.h.Durable {
			for _, key := range []string{"k", "t", "gone", "p0000", "p0001", "p0002"} {
				f.wantAbsent(key)
			}
			return
		}
		f.wantValue("k", string(fixture.Value(ports.MaxValueBytes)))
		f.wantValue("t", "v")
		f.wantAbsent("gone")
		require.Equal(f, all, f.scanAll("p", 0), "entries, versions included, are as they were")
		require.Equal(f, numbered("p", 3)[2:], keysOf(f.scan("p", 2, cursor).Entries), "a cursor outlives the store")
		f.putWith("k", "2", types.PutOptions{If: types.IfVersion(version)})

		f.reopen()
		f.wantValue("k", "2")
		f.lose("k", types.IfVersion(version))
	}},
	{name: "an expiry passes while the store is closed", moves: true, run: func(f *fix) {
		if !f.h.Durable {
			f.Skip("the harness claims no durability")
		}
		version := f.putTTL("k", "v", time.Minute)
		f.reopen()
		f.clock.Advance(time.Minute - time.Millisecond)
		f.wantValue("k", "v")
		f.reopen()
		f.clock.Advance(time.Millisecond)
		f.lose("k", types.IfVersion(version))
		f.wantAbsent("k")
	}},
	{name: "a second handle is as claimed", run: func(f *fix) {
		if !f.h.MultiHandle && f.store.Second == nil {
			f.Skip("the harness claims no second handle and cannot try one")
		}
		require.NotNil(f, f.store.Second, "a harness with MultiHandle opens a second handle")
		version := f.put("k", "1")
		second, err := f.store.Second(f)
		if !f.h.MultiHandle {
			require.ErrorIs(f, err, ports.ErrInUse, "a second handle that is not claimed")
			f.wantValue("k", "1")
			return
		}
		require.NoError(f, err)
		first := f.kv
		f.kv = second
		f.wantValue("k", "1")
		version = f.putWith("k", "2", types.PutOptions{If: types.IfVersion(version)})
		f.kv = first
		f.wantValue("k", "2")
		f.putWith("k", "3", types.PutOptions{If: types.IfVersion(version)})
		f.lose("k", types.IfVersion(version))
		f.kv = second
		f.wantValue("k", "3")
		f.delete("k", types.Always(), true)
		closeKv(f, second)
		f.kv = first
		f.wantAbsent("k")
		f.put("k", "the first goes on")
		f.wantValue("k", "the first goes on")
	}},
	{name: "backup is as claimed", run: func(f *fix) {
		store, ok := f.kv.(ports.Backuper)
		require.Equal(f, f.h.CanBackup, ok, "the store is a ports.Backuper: want what the harness claims")
		if !ok {
			return
		}
		f.put("k", "v")
		path := filepath.Join(f.TempDir(), "copy")
		require.NoError(f, store.Backup(f.ctx, path))
		require.FileExists(f, path)
		require.ErrorIs(f, store.Backup(f.ctx, path), ports.ErrAlreadyExists, "a backup never overwrites")
		require.NoError(f, store.Verify(f.ctx))
		require.ErrorIs(f, store.Backup(fixture.Cancelled(f), path+"2"), context.Canceled)
		require.NoFileExists(f, path+"2")
		f.wantValue("k", "v")
	}},
	{name: "a health check is as claimed", run: func(f *fix) {
		store, ok := f.kv.(ports.HealthChecker)
		require.Equal(f, f.h.CanCheckHealth, ok, "the store is a ports.HealthChecker: want what the harness claims")
		if ok {
			f.put("k", "v")
			require.NoError(f, store.HealthCheck(f.ctx))
		}
	}},
}
