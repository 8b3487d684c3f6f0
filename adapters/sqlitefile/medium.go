package sqlitefile

import (
	"context"
	"errors"
	"path/filepath"
	"slices"

	"github.com/stowage-go/stowage/ports"
)

// medium is what a store lies on. What differs between a file and memory is here.
type medium interface {
	// open makes the store if there is none, and the writer's connection to it.
	open(f *File) error
	// enter waits until the writer's connection is free for a batch; leave frees it.
	enter(ctx context.Context, f *File, op string) error
	leave(f *File)
	// check finds out whether the files are still those of the only owner, before a batch; ended is told
	// of its end.
	check(f *File, op string) error
	ended(f *File, batch []*write)
	// committed is told of every commit.
	committed(f *File)
	// aside lends a connection to something that takes long, until done is called.
	aside(ctx context.Context, f *File, op string) (c *Conn, done func() error, err error)
	// close ends the connections. No write is under way, and none can begin.
	close(f *File) error
}

// disk is a store in a file: the writer has a connection of its own, and so has each reader.
type disk struct{}

func (disk) open(f *File) (err error) {
	if err := f.checkKind(); err != nil {
		return err
	}
	if err := makeDirectory(filepath.Dir(f.path)); err != nil {
		return f.setupError(err)
	}
	if f.owned, err = f.own(); err != nil {
		return err
	}
	if err := f.start(); err != nil {
		return errors.Join(err, f.abandon())
	}
	return nil
}

func (disk) enter(context.Context, *File, string) error { return nil }

func (disk) leave(*File) {}

func (disk) check(f *File, op string) error {
	if err := f.checkIdentity(op); err != nil {
		return err
	}
	return f.checkExtent(op)
}

func (disk) ended(f *File, batch []*write) {
	f.measureLog()
	// The log may hold what is needed: once it is copied, it is written from its front again.
	if slices.ContainsFunc(batch, func(w *write) bool { return errors.Is(w.err, ports.ErrDiskFull) }) {
		f.checkpoints.tailDue.Store(true)
	}
}

func (disk) committed(f *File) { f.checkpoints.consider(f) }

func (disk) aside(_ context.Context, f *File, op string) (*Conn, func() error, error) {
	c, err := f.connect(false)
	if err != nil {
		return nil, nil, f.engineError(op, err)
	}
	return c, c.close, nil
}

func (disk) close(f *File) error {
	var errs []error
	for range f.o.Readers {
		if c := <-f.readers; c != nil {
			errs = append(errs, c.close())
		}
	}
	// The writer's is the last connection: closing it takes the log away.
	return errors.Join(append(errs, f.checkpoints.close(), f.writer.close(), f.owned.release())...)
}

// memory is a store that exists on one connection alone. It is the only one that readers are lent, so
// that whoever has it keeps the others out, those who lead a batch among them. They get it in the
// order in which they came.
type memory struct{}

func (memory) open(f *File) error {
	f.o.Ownership = ExclusiveDirectory // nobody else can have it open
	db, err := dial(InMemory, modeMemory, f.o.BusyTimeout)
	if err != nil {
		return f.setupError(err)
	}
	if f.writer, err = f.equip(db, false); err != nil {
		return f.setupError(err)
	}
	err = f.writer.setPageSize(f.o.PageSize)
	if err == nil {
		err = f.writer.bringUp(f.o.Schema)
	}
	if err != nil {
		return errors.Join(f.setupError(err), f.writer.close())
	}
	f.readers = make(chan *Conn, 1)
	f.readers <- f.writer
	return nil
}

func (m memory) enter(ctx context.Context, f *File, op string) error {
	select {
	case <-f.readers:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := f.writer.queryOnly(false); err != nil {
		m.leave(f)
		return f.engineError(op, err)
	}
	return nil
}

func (memory) leave(f *File) { f.readers <- f.writer }

func (memory) check(*File, string) error { return nil }

func (memory) ended(*File, []*write) {}

func (memory) committed(*File) {}

func (m memory) aside(ctx context.Context, f *File, op string) (*Conn, func() error, error) {
	if err := m.enter(ctx, f, op); err != nil {
		return nil, nil, err
	}
	return f.writer, func() error { m.leave(f); return nil }, nil
}

func (memory) close(f *File) error { return (<-f.readers).close() }
