package ndjson

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

const (
	// DefaultPoll is how often a source looks for new lines.
	DefaultPoll = 200 * time.Millisecond
	// DefaultInterval is how long an event of a sink may wait for its sync under [FsyncInterval].
	DefaultInterval = time.Second

	minPoll = time.Millisecond
)

// SourceOptions open a [Source]. Pipeline, Path and StateDir are required.
type SourceOptions struct {
	// Pipeline is the pipeline that reads. It names the state file.
	Pipeline types.PipelineID
	// Path is the file.
	Path string
	// StateDir is where the source remembers which file stands where in the count of its cursors, as
	// ndjson/<pipeline>.json.
	StateDir string
	// Once ends the source with io.EOF at the end of the file, rather than wait for more.
	Once bool
	// Poll is how often the file is looked at for more, at least a millisecond; default 200 ms.
	Poll time.Duration
	// Clock is what polls wait on, and gives events their time; default the system's.
	Clock ports.Clock
	// Log takes what an operator should know; default slog.Default.
	Log *slog.Logger
}

func (o SourceOptions) check(op string) (SourceOptions, error) {
	if err := ports.CheckPipeline(op, o.Pipeline); err != nil {
		return o, ports.Errorf(ports.CodeInvalidConfig, op, "the source has no pipeline: %w", err)
	}
	if err := checkPath(op, o.Path); err != nil {
		return o, err
	}
	if o.StateDir == "" {
		return o, ports.Errorf(ports.CodeInvalidConfig, op, "no state directory is given: set StateDir")
	}
	if o.Poll == 0 {
		o.Poll = DefaultPoll
	}
	if o.Poll < minPoll {
		return o, ports.Errorf(ports.CodeInvalidConfig, op, "poll is %v: give at least %v", o.Poll, minPoll)
	}
	o.Clock, o.Log = clockOf(o.Clock), logOf(o.Log)
	return o, nil
}

// Fsync says when a [Sink] makes sure that what it wrote survives a power cut.
type Fsync int

const (
	// FsyncAlways syncs before a delivery counts as done.
	FsyncAlways Fsync = iota
	// FsyncInterval syncs a while after the write: a power cut may take back the latest events, though
	// they count as delivered. A crash of the process takes back none.
	FsyncInterval
	// FsyncNever leaves it to the system.
	FsyncNever
)

// ParseFsync reads the word that a configuration uses: "always", "interval", "never", or nothing for
// always.
func ParseFsync(op, word string) (Fsync, error) {
	switch word {
	case "", "always":
		return FsyncAlways, nil
	case "interval":
		return FsyncInterval, nil
	case "never":
		return FsyncNever, nil
	}
	return 0, ports.Errorf(ports.CodeInvalidConfig, op, "fsync is %q: use \"always\", \"interval\" or \"never\"", word)
}

// String gives the word of [ParseFsync].
func (f Fsync) String() string {
	switch f {
	case FsyncAlways:
		return "always"
	case FsyncInterval:
		return "interval"
	case FsyncNever:
		return "never"
	}
	return fmt.Sprintf("Fsync(%d)", int(f))
}

// SinkOptions open a [Sink]. Path is required.
type SinkOptions struct {
	// Path is the file. It is made if missing, with mode 0600, and so are its parents, with 0700.
	Path string
	// Fsync is FsyncAlways by default.
	Fsync Fsync
	// Interval is for FsyncInterval; default a second.
	Interval time.Duration
	// Clock is what the interval is waited on; default the system's.
	Clock ports.Clock
	// Log takes what an operator should know; default slog.Default.
	Log *slog.Logger

	// open opens the file; nil is openSinkFile.
	open func(name string, sync bool) (sinkFile, error)
}

func (o SinkOptions) check(op string) (SinkOptions, error) {
	if err := checkPath(op, o.Path); err != nil {
		return o, err
	}
	if o.Fsync < FsyncAlways || o.Fsync > FsyncNever {
		return o, ports.Errorf(ports.CodeInvalidConfig, op, "the fsync policy is %d: use FsyncAlways, FsyncInterval or FsyncNever", int(o.Fsync))
	}
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.Interval < time.Millisecond {
		return o, ports.Errorf(ports.CodeInvalidConfig, op, "the interval is %v: give at least a millisecond", o.Interval)
	}
	if o.open == nil {
		o.open = openSinkFile
	}
	o.Clock, o.Log = clockOf(o.Clock), logOf(o.Log)
	return o, nil
}

func checkPath(op, path string) error {
	switch {
	case path == "":
		return ports.Errorf(ports.CodeInvalidConfig, op, "path is empty: name a file")
	case strings.ContainsRune(path, 0):
		return ports.Errorf(ports.CodeInvalidConfig, op, "path has a NUL byte: name a file")
	case os.IsPathSeparator(path[len(path)-1]):
		return ports.Errorf(ports.CodeInvalidConfig, op, "path is %q, which is a directory: name a file", path)
	}
	for _, ending := range [...]string{".sqlite", ".sqlite-wal", ".sqlite-shm"} {
		if strings.HasSuffix(path, ending) {
			return ports.Errorf(ports.CodeInvalidConfig, op, "path is %q, the name of a database, which nothing else may open: name a file of JSON lines", path)
		}
	}
	return nil
}

func clockOf(clock ports.Clock) ports.Clock {
	if clock == nil {
		return ports.SystemClock()
	}
	return clock
}

func logOf(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.Default()
	}
	return log
}
