package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace"

	"github.com/stowage-go/stowage/core/catalog"
	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/core/pipeline"
	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

const (
	// stopTimeout is how long a stop waits for running operations before it gives them up.
	stopTimeout = 35 * time.Second

	// answerTimeout is how long it waits, once there are none, for clients to take their answers. A
	// request that has not arrived by then would only be refused.
	answerTimeout = 5 * time.Second

	// traceTimeout is how long it waits for a collector to take the last spans.
	traceTimeout = 3 * time.Second
)

func serveCommand(a *app) *cobra.Command {
	var file, state, listen, endpoint string
	level := &choice{"info", []string{"debug", "info", "warn", "error"}}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon that owns the queues and the storage of a state directory, and runs pipelines",
		Long: `Run the daemon that owns the queues and the storage of a state directory, serves them over HTTP, and runs
the pipelines of its configuration and those that are resources.
Without a configuration it keeps everything in ./stowage-data and listens on 127.0.0.1:7420. Every
queue directory that is there at the start is one of its queues. A storage that cannot be opened stops
the start, and so does a pipeline of the configuration that could not be run; the file, the line and the
key are named.

The address and the next command to try go to standard output, the log to standard error: text on a
terminal, JSON lines otherwise. With a sink of the module stdout in the file, standard output has the
events alone, and the address goes to standard error too. Port 0 lets the system choose one. There is no TLS: beyond the
loopback interface, put a proxy in front.

SIGTERM and SIGINT stop it cleanly: pipelines finish the sends that are under way and save how far they
are, long polls are woken, running operations finish, those on many dead letters behind the letter that is
under way, and the exit code is 0. A second signal ends it at once. No stop of any kind, SIGKILL included, loses a message or a
record that was accepted.`,
		Example: `  stowage serve
  stowage serve --state-dir /var/lib/stowage --listen 127.0.0.1:8080
  stowage serve --config stowage.toml`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&file, "config", "", "configuration file (default: none, built-in defaults)")
	flags.StringVar(&state, "state-dir", "", "state directory, in place of the configured one (default $"+envStateDir+", else "+defaultStateDir+")")
	flags.StringVar(&listen, "listen", "", "host:port to listen on, in place of the configured one (default "+config.DefaultListen+")")
	flags.StringVar(&endpoint, "endpoint", "", "URL under which applications reach the daemon, for bindings (default: the address that it listens on)")
	flags.Var(level, "log-level", "the least level that is logged")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := loadConfig(a, cmd, file, state)
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("listen") {
			if err := cfg.SetListen(listen); err != nil {
				return err
			}
		}
		if cmd.Flags().Changed("endpoint") {
			if err := checkEndpoint(endpoint); err != nil {
				return err
			}
		}
		log := newLogger(a.err, level.value)
		d, err := startDaemon(cmd.Context(), cfg, endpoint, a.getenv, log)
		if err != nil {
			return cutShort(cmd.Context(), log, err)
		}
		out := io.Writer(a.out)
		if printsEvents(cfg) {
			out = a.err // standard output is for the events alone
		}
		announce(out, a.getenv, d.address(), cfg.StateDir)
		return d.run(cmd.Context())
	}
	return cmd
}

// loadConfig reads the configuration that a command names, or takes the built-in defaults. The state
// directory of the flag goes before that of the file, and that of the environment counts only where
// there is no file.
func loadConfig(a *app, cmd *cobra.Command, file, state string) (*config.Config, error) {
	if !cmd.Flags().Changed("config") {
		if cmd.Flags().Changed("state-dir") {
			return config.Default(state)
		}
		return config.Default(stateDir(a, ""))
	}
	cfg, err := config.Load(file)
	if err != nil {
		return nil, err
	}
	if cmd.Flags().Changed("state-dir") {
		return cfg, cfg.SetStateDir(state)
	}
	return cfg, nil
}

func newLogger(w *os.File, word string) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(word)); err != nil {
		panic("stowage: " + err.Error()) // the flag takes no other words
	}
	options := &slog.HandlerOptions{Level: level}
	if isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

// announce prints where the daemon is, and the next command to try, as it has to be typed here.
func announce(w io.Writer, getenv func(string) string, address, stateDir string) {
	program := "stowage"
	if strings.ContainsRune(os.Args[0], filepath.Separator) {
		program = os.Args[0]
	}
	var text strings.Builder
	fmt.Fprintf(&text, "stowage is ready at %s\n", address)
	fmt.Fprintf(&text, "its state is in %s\n\ntry, in another terminal:\n", printable(stateDir))
	if firstOf(getenv(envServer), defaultServer) != address {
		fmt.Fprintf(&text, "  export %s=%s\n", envServer, address)
	}
	if absolute(firstOf(getenv(envStateDir), defaultStateDir)) != stateDir {
		fmt.Fprintf(&text, "  export %s=%s\n", envStateDir, shellQuote(stateDir))
	}
	fmt.Fprintf(&text, "  %s queue create orders\n", shellQuote(program))
	fmt.Fprintf(&text, "  %s queue send orders '{\"id\":1}'\n", shellQuote(program))
	fmt.Fprintf(&text, "  %s queue receive orders --ack -o jsonl\n", shellQuote(program))
	// Whoever closed standard output does not want to know; the daemon is there all the same.
	_, _ = io.WriteString(w, text.String())
}

func shellQuote(word string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("/._-:@+=,", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// daemon serves the queues of one owner and one storage, and runs pipelines.
type daemon struct {
	log      *slog.Logger
	stores   *catalog.Composition
	engine   *pipeline.Engine
	tracer   trace.Tracer
	listener net.Listener
	server   *http.Server
	stopping chan struct{} // closed when a stop begins
	abort    chan struct{} // closed when it waits no longer for exports, which keep the storage open

	endTracing func(context.Context) error
}

// startDaemon takes the address first and what is on the disk second, so that a daemon whose address is
// taken leaves nothing behind.
func startDaemon(ctx context.Context, cfg *config.Config, endpoint string, getenv func(string) string, log *slog.Logger) (*daemon, error) {
	stores, err := newComposition(cfg, log)
	if err != nil {
		return nil, err
	}
	d := &daemon{log: log, stores: stores, stopping: make(chan struct{}), abort: make(chan struct{})}
	if d.tracer, d.endTracing, err = newTracing(ctx, getenv, version(), log); err != nil {
		return nil, errors.Join(err, stores.Close(context.WithoutCancel(ctx)))
	}
	if err := d.start(ctx, cfg, endpoint); err != nil {
		return nil, errors.Join(err, d.close(context.WithoutCancel(ctx)))
	}
	return d, nil
}

// close gives back what a daemon has taken that does not run.
func (d *daemon) close(ctx context.Context) error {
	var errs []error
	if d.listener != nil {
		errs = append(errs, d.listener.Close())
	}
	if d.engine != nil {
		errs = append(errs, d.engine.Close(ctx))
	}
	return errors.Join(append(errs, d.stores.Close(ctx), d.traced(ctx))...)
}

// traced sends the last spans. A collector that does not take them costs those and no stop.
func (d *daemon) traced(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, traceTimeout)
	defer cancel()
	err := d.endTracing(limited)
	if errors.Is(err, context.DeadlineExceeded) {
		d.log.Warn("the last spans were not taken by the collector in time", "error", err)
		return nil
	}
	return err
}

func (d *daemon) start(ctx context.Context, cfg *config.Config, endpoint string) error {
	startedAt := time.Now()
	var err error
	if d.listener, err = listen(ctx, cfg.HTTP.Listen, "daemon"); err != nil {
		return err
	}
	// What is opened first is closed last: what was given to a queue can still be settled.
	storage, err := d.stores.Storage(ctx)
	if err != nil {
		return err
	}
	owner, err := d.stores.Owner(ctx)
	if err != nil {
		return err
	}
	if d.engine, err = newEngine(d.stores, storage, cfg.StateDir, d.tracer, d.log); err != nil {
		return err
	}
	handler, err := newHandler(handlerParts{
		owner:     owner,
		storage:   storage,
		module:    d.stores.StorageModule(),
		engine:    d.engine,
		stopping:  d.stopping,
		abort:     d.abort,
		stateDir:  cfg.StateDir,
		endpoint:  firstOf(endpoint, d.address()),
		checks:    map[string]func(context.Context) error{"daemon": d.running, "stores": d.healthy},
		version:   version(),
		startedAt: startedAt,
		log:       d.log,
	})
	if err != nil {
		return err
	}
	d.server = newServer(handler, d.log)
	queues, err := owner.List(ctx)
	if err != nil {
		return err
	}
	d.describe(cfg, queues)
	return nil
}

var errAddressTaken = errors.New("another program uses this address")

// listen listens for a program such as "daemon", of which there may be another one.
func listen(ctx context.Context, address, program string) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, exitf(exitUnavailable, "listen on %s: %w, maybe another %s; stop it, or choose another address with --listen", address, errAddressTaken, program)
	case errors.Is(err, os.ErrPermission):
		return nil, exitf(exitDenied, "listen on %s: %w; choose a port above 1023 with --listen", address, err)
	case err != nil:
		return nil, exitf(exitUsage, "listen on %s: %w; choose an address of this machine with --listen", address, err)
	}
	return listener, nil
}

// address is the URL of the daemon, as a client on this machine reaches it.
func (d *daemon) address() string {
	host, port, err := net.SplitHostPort(d.listener.Addr().String())
	if err != nil {
		return "http://" + d.listener.Addr().String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// describe logs what the daemon runs with.
func (d *daemon) describe(cfg *config.Config, queues []types.QueueInfo) {
	file := "built-in defaults"
	if cfg.File != "" {
		file = absolute(cfg.File)
	}
	d.log.Info("the daemon starts", "config", file, "state_dir", cfg.StateDir, "listen", d.listener.Addr().String())
	d.log.Info("owner of the queues", "name", "owner", "module", ownerModule, "path", queuesDir(cfg.StateDir))
	for _, s := range configuredStores(cfg) {
		attrs := []any{"name", firstOf(s.Name, s.Kind), "module", s.Module}
		if len(s.Paths) > 0 {
			attrs = append(attrs, "path", strings.Join(s.Paths, string(filepath.ListSeparator)))
		}
		switch {
		case s.Kind == string(catalog.KindStorage) && len(s.Paths) == 0:
			d.log.Warn("storage, which keeps nothing when the daemon ends", attrs...)
		case s.Kind == string(catalog.KindStorage):
			d.log.Info("storage", attrs...)
		case s.Kind == string(catalog.KindSource):
			d.log.Info("source of a pipeline", attrs...)
		case s.Kind == string(catalog.KindSink):
			d.log.Info("sink of a pipeline", attrs...)
		case s.Kind == string(catalog.KindKv):
			d.log.Info("key-value store, which applications open themselves", attrs...)
		case s.Module != ownerModule:
			d.log.Warn("this queue is not served: the daemon serves the queues of its own state directory", attrs...)
		}
	}
	for _, q := range queues { // the configured ones are among them
		if q.Err == nil { // the owner has reported the others
			d.log.Info("queue", "name", q.ID, "module", ownerModule, "path", filepath.Dir(queueDatabase(cfg.StateDir, q.ID)))
		}
	}
	if tcp, ok := d.listener.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		d.log.Warn("the daemon can be reached from other machines, and its traffic and tokens are not encrypted: put a proxy with TLS in front, or listen on 127.0.0.1", "listen", d.listener.Addr().String())
	}
}

// running fails once a stop has begun.
func (d *daemon) running(context.Context) error {
	select {
	case <-d.stopping:
		return ports.Errorf(ports.CodeStoreClosed, "ready", "the daemon is stopping")
	default:
		return nil
	}
}

// healthy asks the stores.
func (d *daemon) healthy(ctx context.Context) error {
	var failed []error
	for _, err := range d.stores.HealthCheck(ctx) {
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// run runs the pipelines and serves until ctx ends, then stops.
func (d *daemon) run(ctx context.Context) error {
	// First the pipelines: who asks before they are there would hear that there is no such pipeline, and
	// take that for final. Until then connections wait in the listener.
	if err := d.engine.Start(ctx); err != nil {
		return cutShort(ctx, d.log, errors.Join(err, d.close(context.WithoutCancel(ctx))))
	}
	served := make(chan error, 1)
	go func() { served <- d.server.Serve(d.listener) }()
	select {
	case err := <-served:
		ctx := context.WithoutCancel(ctx)
		return errors.Join(fmt.Errorf("serve HTTP: %w", err), d.engine.Close(ctx), d.stores.Close(ctx), d.traced(ctx))
	case <-ctx.Done():
	}
	d.log.Info("the daemon stops", "reason", context.Cause(ctx).Error())
	err := errors.Join(d.stop(context.WithoutCancel(ctx)), d.traced(context.WithoutCancel(ctx)))
	<-served
	if err == nil {
		d.log.Info("the daemon has stopped")
	}
	return err
}

// cutShort takes the error of a start. A stop that was asked for meanwhile is as good as any other, and no
// failure.
func cutShort(ctx context.Context, log *slog.Logger, err error) error {
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) && !errors.Is(err, context.Cause(ctx)) {
		return err
	}
	log.Info("the daemon has stopped before it was started", "reason", context.Cause(ctx).Error(), "error", err)
	return nil
}

// stop closes the listener, then the pipelines, which finish the sends that are under way, then the
// stores below them: closing the owner wakes the long polls that the server waits for, and lets running
// operations finish. What is open after that is waiting for its client.
func (d *daemon) stop(ctx context.Context) error {
	close(d.stopping)
	defer time.AfterFunc(answerTimeout, func() { close(d.abort) }).Stop()
	limited, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	serving, cutOff := context.WithCancel(limited)
	defer cutOff()
	drained := make(chan error, 1)
	go func() {
		err := d.server.Shutdown(serving)
		if serving.Err() != nil && errors.Is(err, serving.Err()) {
			d.log.Warn("connections are cut off whose clients did not take their answers, or did not finish their requests")
			err = d.server.Close()
		}
		drained <- err
	}()
	closed := errors.Join(d.engine.Close(limited), d.stores.Close(limited))
	defer time.AfterFunc(answerTimeout, cutOff).Stop()
	return errors.Join(closed, <-drained)
}
