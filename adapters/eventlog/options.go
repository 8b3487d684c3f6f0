package eventlog

import (
	"log/slog"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// Options open a Log. Dir is required; the zero value of everything else is its default.
type Options struct {
	// Dir is the directory of the log, made with its parents if missing. Nothing else may lie in it.
	Dir string
	// From is the checkpoint behind which reading begins: whatever lies up to it counts as settled. Nil
	// begins at the oldest event that is kept.
	From *types.Cursor
	// MaxBytes bounds the files of the log together. Default 1 GiB, at least 64 KiB.
	MaxBytes int64
	// SegmentBytes is the size from which on a new file is begun. Files are deleted as a whole, so it is
	// also about how much is kept that nobody needs any more. Default 64 MiB, or an eighth of MaxBytes
	// if that is less; at least 4 KiB and at most half of MaxBytes.
	SegmentBytes int64
	// Clock gives events without a time that of their arrival; default the system's.
	Clock ports.Clock
	// Log takes what an operator should know; default slog.Default.
	Log *slog.Logger

	create func(path string) (segmentFile, error) // tests put failing files here
	reopen func(path string) (segmentFile, error)
}

const (
	defaultMaxBytes     = 1 << 30
	minMaxBytes         = 64 << 10
	defaultSegmentBytes = 64 << 20
	minSegmentBytes     = 4 << 10
)

func (o Options) check(op string) (Options, error) {
	if o.Dir == "" {
		return o, ports.Errorf(ports.CodeInvalidConfig, op, "no directory is given: set Dir")
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.MaxBytes < minMaxBytes {
		return o, ports.Errorf(ports.CodeInvalidConfig, op, "max_bytes is %d: give at least %d, or leave it out for %d", o.MaxBytes, minMaxBytes, defaultMaxBytes)
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = min(defaultSegmentBytes, o.MaxBytes/8)
	}
	if o.SegmentBytes < minSegmentBytes || o.SegmentBytes > o.MaxBytes/2 {
		return o, ports.Errorf(ports.CodeInvalidConfig, op, "segment_bytes is %d: give %d to %d, which is half of max_bytes", o.SegmentBytes, minSegmentBytes, o.MaxBytes/2)
	}
	if o.Clock == nil {
		o.Clock = ports.SystemClock()
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.create == nil {
		o.create = createFile
	}
	if o.reopen == nil {
		o.reopen = reopenFile
	}
	return o, nil
}
