package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/stowage-go/stowage/core/config"
	"github.com/stowage-go/stowage/types"
)

const (
	quickstartDir = "docs/examples/quickstart"
	// What the configuration of the quickstart says; feeding and receiving keep to it.
	quickstartPipeline = types.PipelineID("earthquakes")
	quickstartEvents   = "earthquakes.ndjson"
	quickstartSecret   = "webhook-secret"

	// quickstartSpeed takes about a minute for the week.
	quickstartSpeed = 30
	maxSpeed        = 1_000_000

	drawEvery  = 250 * time.Millisecond
	printEvery = 3 * time.Second
	askTimeout = 2 * time.Second
	lastShown  = 6 // deliveries on the screen
)

type quickstartOptions struct {
	dir, stateDir          string
	listen, receiverListen string
	speed                  float64
	noReceiver             bool
}

func quickstartCommand(a *app) *cobra.Command {
	var opts quickstartOptions
	cmd := &cobra.Command{
		Use:   "quickstart",
		Short: "See a pipeline at work: a week of earthquakes, in about a minute",
		Long: `See a pipeline at work. The command runs the daemon with the configuration in ` + quickstartDir + `,
starts "stowage receiver" beside it, and writes a week of earthquakes to the file that the pipeline follows,
in about a minute. On a terminal it shows all of that on one screen; elsewhere it prints a line now and
then. It is run at the root of a clone, as "make run" does.

Type r and Enter to stop the receiver, and to start it again: what it misses becomes dead letters. q and
Enter, Ctrl-C and SIGTERM stop everything cleanly, with the exit code 0. A later run goes on where this one
stopped; to begin anew, remove the state directory. The logs are in it.`,
		Example: `  stowage quickstart
  stowage quickstart --speed 0 --listen 127.0.0.1:8000 --receiver-listen 127.0.0.1:8001`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.dir, "dir", quickstartDir, "directory with the configuration and the earthquakes")
	flags.StringVar(&opts.stateDir, "state-dir", "", "state directory, in place of the configured one")
	flags.StringVar(&opts.listen, "listen", "", "host:port of the daemon (default "+config.DefaultListen+")")
	flags.StringVar(&opts.receiverListen, "receiver-listen", defaultReceiver, "host:port of the receiver")
	flags.Float64Var(&opts.speed, "speed", quickstartSpeed, "earthquakes a second; 0 feeds all at once")
	flags.BoolVar(&opts.noReceiver, "no-receiver", false, "begin with the receiver stopped; r and Enter starts it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !(opts.speed >= 0 && opts.speed <= maxSpeed) { // NaN is refused too
			return usagef("--speed is %v: give earthquakes a second, up to %d, or 0 for all at once", opts.speed, maxSpeed)
		}
		q, err := newQuickstart(a, opts)
		if err != nil {
			return err
		}
		return q.run(cmd.Context())
	}
	return cmd
}

// quickstart is a run of the quickstart.
type quickstart struct {
	app      *app
	opts     quickstartOptions
	file     string // the configuration
	text     []byte // of it
	stateDir string
	feed     *feeder
	// fedBefore is how many earthquakes the file had when the run began.
	fedBefore int
	child     *receiverChild

	client operatorClient // of the daemon, once there is one
	server string

	mu       sync.Mutex
	received receivedCounts
	note     string // what there is to say of the last thing that happened
}

// receivedCounts are what the receiver has got in this run, and the last of it.
type receivedCounts struct {
	taken, again, refused int
	known                 *recent
	last                  []receivedItem
}

func newQuickstart(a *app, opts quickstartOptions) (*quickstart, error) {
	q := &quickstart{app: a, opts: opts, file: filepath.Join(opts.dir, defaultConfigFile)}
	q.received.known = newRecent(receiverKnown)
	var err error
	if q.text, err = os.ReadFile(q.file); err != nil {
		return nil, notInAClone(q.file, err)
	}
	quakes := filepath.Join(opts.dir, quickstartEvents)
	events, err := os.ReadFile(quakes)
	if err != nil {
		return nil, notInAClone(quakes, err)
	}
	cfg, err := q.configuration("")
	if err != nil {
		return nil, err
	}
	q.stateDir = cfg.StateDir
	if err := os.MkdirAll(q.stateDir, 0o700); err != nil {
		return nil, fmt.Errorf("make the state directory: %w", err)
	}
	if err := makeWebhookSecret(filepath.Join(q.stateDir, quickstartSecret)); err != nil {
		return nil, err
	}
	if q.feed, err = newFeeder(events, filepath.Join(q.stateDir, quickstartEvents)); err != nil {
		return nil, err
	}
	q.fedBefore = q.feed.count()
	return q, nil
}

func notInAClone(path string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read what the quickstart is made of: %w", err)
	}
	return exitf(exitNotFound, "there is no %s here: the quickstart runs at the root of a clone of the repository; go there, or name the directory with --dir", path)
}

// configuration is that of the file, with the flags in its place, and with the receiver's address, unless
// that is empty.
func (q *quickstart) configuration(receiver string) (*config.Config, error) {
	text := q.text
	if receiver != "" {
		text = bytes.ReplaceAll(text, []byte("http://"+defaultReceiver+"/"), []byte("http://"+receiver+"/"))
	}
	cfg, err := config.Parse(q.file, text)
	if err == nil && q.opts.stateDir != "" {
		err = cfg.SetStateDir(q.opts.stateDir)
	}
	if err == nil && q.opts.listen != "" {
		err = cfg.SetListen(q.opts.listen)
	}
	return cfg, err
}

// makeWebhookSecret writes a secret for signatures, unless there is one. It is written to a file of another
// name and linked to its place, so that nobody ever reads half of one, and the first of many wins.
func makeWebhookSecret(path string) (err error) {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("make the secret of the webhook: %w", err)
		}
	}()
	file, err := os.CreateTemp(filepath.Dir(path), ".webhook-secret-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
	random := make([]byte, 32)
	_, err = rand.Read(random)
	if err == nil {
		_, err = fmt.Fprintf(file, "whsec_%s\n", base64.StdEncoding.EncodeToString(random))
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Link(file.Name(), path); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// run runs everything until ctx ends, somebody types q, or something fails.
func (q *quickstart) run(ctx context.Context) (err error) {
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	log, err := q.open("quickstart.log")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	received, err := q.open("received.jsonl")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, received.Close()) }()

	q.child = &receiverChild{listen: q.opts.receiverListen, secretFile: filepath.Join(q.stateDir, quickstartSecret), log: received, took: q.took}
	if err := q.child.start(); err != nil {
		return err
	}
	// The receiver is stopped last: until then the daemon delivers what is under way.
	defer func() { err = errors.Join(err, q.child.stop()) }()
	if q.opts.noReceiver { // it has its address by now
		if err := q.child.stop(); err != nil {
			return err
		}
	}

	cfg, err := q.configuration(q.child.address())
	if err != nil {
		return err
	}
	d, err := startDaemon(ctx, cfg, "", q.app.getenv, slog.New(slog.NewTextHandler(log, nil)))
	if errors.Is(err, errAddressTaken) {
		return fmt.Errorf("%w, or make run ARGS='--listen HOST:PORT'", err)
	}
	if err != nil {
		return err
	}
	q.server = d.address()
	token, err := readToken(adminTokenFile(q.stateDir))
	if err == nil {
		q.client, err = newOperatorClient(q.server, token)
	}
	if err != nil {
		return errors.Join(err, d.close(context.WithoutCancel(ctx)))
	}

	feeding, serving := make(chan error, 1), make(chan error, 1)
	go func() { serving <- d.run(ctx) }()
	go func() { feeding <- q.feed.run(ctx, q.opts.speed) }()
	served, err := q.show(ctx, feeding, serving)
	quit()
	if !served {
		err = errors.Join(err, <-serving)
	}
	return err
}

func (q *quickstart) open(name string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(q.stateDir, name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of the quickstart: %w", err)
	}
	return file, nil
}

// took counts what the receiver got.
func (q *quickstart) took(item receivedItem) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := &q.received
	if item.ID == "" {
		r.refused++
		return
	}
	r.taken++
	if item.Again = r.known.add(string(item.ID)); item.Again {
		r.again++
	}
	r.last = append(r.last, item)
	r.last = r.last[max(0, len(r.last)-lastShown):]
}

// show shows what is going on until ctx ends, somebody types q, or something fails. It reports whether
// the daemon has ended by itself.
func (q *quickstart) show(ctx context.Context, feeding, serving <-chan error) (served bool, err error) {
	begun := time.Now()
	view := q.newView()
	typed := q.typed(ctx)
	ticker := time.NewTicker(drawEvery)
	defer ticker.Stop()
	view.begin()
	var last snapshot
	for {
		anew := false
		select {
		case <-ctx.Done():
			view.end(last)
			return false, nil
		case err := <-serving:
			return true, err
		case err := <-feeding:
			if err != nil {
				return false, err
			}
			feeding = nil
		case line, ok := <-typed:
			if !ok {
				typed = nil
				continue
			}
			if strings.TrimSpace(line) == "q" {
				view.end(last)
				return false, nil
			}
			q.obey(strings.TrimSpace(line))
			anew = true
		case <-ticker.C:
		}
		if ctx.Err() != nil {
			continue
		}
		last = q.look(ctx, last, time.Since(begun))
		view.update(last, anew)
	}
}

// typed passes on the lines of standard input. In the background a terminal gives none.
func (q *quickstart) typed(ctx context.Context) <-chan string {
	signal.Ignore(syscall.SIGTTIN)
	lines := make(chan string)
	reader := newLineReader(ctx, q.app.in)
	go func() {
		defer close(lines)
		for {
			l, err := reader.next()
			if err != nil {
				return
			}
			select {
			case lines <- string(l.text):
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
}

// obey does what somebody typed.
func (q *quickstart) obey(line string) {
	note := ""
	switch {
	case line == "r" && q.child.pid() != 0:
		note = "the receiver was stopped: what it misses becomes dead letters"
		if err := q.child.stop(); err != nil {
			note = oneLine(describe(err))
		}
	case line == "r":
		note = "the receiver was started: dead letters stay until they are replayed"
		if err := q.child.start(); err != nil {
			note = oneLine(describe(err))
		}
	case line != "":
		note = "type r to stop or start the receiver, or q to end all, and Enter"
	}
	q.mu.Lock()
	q.note = note
	q.mu.Unlock()
}

// look asks the daemon how it is. What it does not answer stays as it was.
func (q *quickstart) look(ctx context.Context, before snapshot, elapsed time.Duration) snapshot {
	now := before
	now.elapsed, now.fed, now.total = elapsed, q.feed.count(), q.feed.total()
	now.pid, now.receiver = q.child.pid(), q.child.address()
	q.mu.Lock()
	now.received, now.note = q.received, q.note
	now.received.last = append([]receivedItem(nil), q.received.last...)
	q.mu.Unlock()

	limited, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	status, err := q.client.Pipeline(limited, quickstartPipeline)
	if err == nil {
		now.status = status
		now.read, now.saved = q.reached(status.Read), q.reached(status.Checkpoint)
		if !before.begun && (status.Read != nil || status.Checkpoint != nil) {
			now.begun, now.before = true, min(q.fedBefore, now.saved)
			if status.Read != nil {
				now.before = min(q.fedBefore, max(0, now.read-int(status.Events+status.BadEvents)))
			}
		}
	}
	counts, err := q.client.LetterCounts(limited)
	if err == nil {
		now.letters = 0
		for _, c := range counts {
			if c.Pipeline == quickstartPipeline {
				now.letters = c.Count
			}
		}
	}
	return now
}

// reached is the number of earthquakes up to a cursor, the offset at which the line of the last begins.
// Lines that somebody else has put behind them do not count.
func (q *quickstart) reached(c *types.Cursor) int {
	if c == nil {
		return 0
	}
	if c.Primary >= uint64(len(q.feed.text)) {
		return q.feed.total()
	}
	return q.feed.line(int(c.Primary)) + 1
}

// snapshot is what there is to show at one moment.
type snapshot struct {
	elapsed     time.Duration
	fed, total  int
	read, saved int  // earthquakes up to the cursors
	before      int  // of those, how many an earlier run has read
	begun       bool // whether that is known
	status      types.PipelineStatus
	letters     int64
	pid         int // of the receiver, 0 where it is stopped
	receiver    string
	received    receivedCounts
	note        string
}

// view shows snapshots.
type view interface {
	begin()
	update(s snapshot, anew bool)
	end(s snapshot)
}

func (q *quickstart) newView() view {
	guide := q.guide()
	if isTerminal(q.app.out) && q.app.getenv("TERM") != "dumb" {
		size := func() (width, height int) {
			width, height, err := term.GetSize(int(q.app.out.Fd()))
			if err != nil {
				return 80, 24
			}
			return width, height
		}
		return &screenView{out: q.app.out, guide: guide, screen: screen{w: q.app.out, size: size, prompt: "> "}}
	}
	return &plainView{out: q.app.out, guide: guide, server: q.server, stateDir: q.stateDir}
}

// guide is what there is to try, as it has to be typed here.
func (q *quickstart) guide() []string {
	program := "stowage"
	if strings.ContainsRune(os.Args[0], filepath.Separator) {
		program = shellQuote(os.Args[0])
	}
	state := q.stateDir
	if here, err := os.Getwd(); err == nil {
		if relative, err := filepath.Rel(here, state); err == nil && filepath.IsLocal(relative) {
			state = relative
		}
	}
	lines := []string{"export " + envStateDir + "=" + shellQuote(state)}
	if q.server != defaultServer {
		lines = append(lines, "export "+envServer+"="+q.server)
	}
	for _, try := range [][2]string{
		{"pipeline show %s", "all of it"},
		{"dlq list %s", "what the receiver missed"},
		{"dlq replay %s --all", "once it is up again"},
		{"pause sink %s/alerts", "it waits, until resume"},
		{"queue receive swarms --ack -o jsonl", "from the gate"},
	} {
		command := strings.Replace(try[0], "%s", string(quickstartPipeline), 1)
		lines = append(lines, fmt.Sprintf("%s %-36s # %s", program, command, try[1]))
	}
	return append(lines, "curl -s "+q.server+"/metrics | grep ^stowage_pipeline")
}

// plainView prints a line now and then.
type plainView struct {
	out              io.Writer
	guide            []string
	server, stateDir string

	printed string
	at      time.Duration
	fed     bool
}

func (v *plainView) begin() {
	var text strings.Builder
	fmt.Fprintf(&text, "stowage is ready at %s\nits state is in %s\n\ntry, in another terminal:\n", v.server, printable(v.stateDir))
	for _, line := range v.guide {
		fmt.Fprintf(&text, "  %s\n", line)
	}
	_, _ = io.WriteString(v.out, text.String()+"\n")
}

func (v *plainView) update(s snapshot, now bool) {
	if !v.fed && s.fed == s.total {
		v.fed = true
		_, _ = fmt.Fprintln(v.out, fedAll(s))
	}
	line := s.plain()
	if now && s.note != "" {
		_, _ = fmt.Fprintln(v.out, s.note)
	}
	if line == v.printed || !now && v.printed != "" && s.elapsed-v.at < printEvery {
		return
	}
	v.printed, v.at = line, s.elapsed
	_, _ = fmt.Fprintf(v.out, "%s  %s\n", clock(s.elapsed), line)
}

func (v *plainView) end(s snapshot) {
	_, _ = fmt.Fprintf(v.out, "%s  %s\nstopping\n", clock(s.elapsed), s.plain())
}

func fedAll(s snapshot) string {
	return "all " + thousands(s.total) + " earthquakes have been fed; the pipeline goes on following the file"
}

func clock(d time.Duration) string {
	return fmt.Sprintf("%02d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

// plain is a snapshot in one line.
func (s snapshot) plain() string {
	total := totalsOf(s.status)
	receiver := "stopped"
	if s.pid != 0 {
		receiver = fmt.Sprintf("up (pid %d)", s.pid)
	}
	return fmt.Sprintf("fed %s of %s, read %s, checkpoint %s, matches %d, emissions %d, delivered %d, waiting %d, duplicates %d, dead letters %d, receiver %s, received %d",
		thousands(s.fed), thousands(s.total), s.readHere("%s in this run (%s before)"), thousands(s.saved), total.matches, total.emissions, total.delivered,
		total.waiting, total.doubles, s.letters, receiver, s.received.taken)
}

// readHere is how many earthquakes this run has read, in a format that says how many an earlier one had,
// where there was one.
func (s snapshot) readHere(both string) string {
	if s.before == 0 {
		return thousands(s.read)
	}
	return fmt.Sprintf(both, thousands(max(0, s.read-s.before)), thousands(s.before))
}

// screenView redraws one screen.
type screenView struct {
	out    io.Writer
	guide  []string
	screen screen
}

func (v *screenView) begin() {}

func (v *screenView) update(s snapshot, anew bool) {
	_, height := v.screen.size()
	v.screen.draw(s.screen(v.guide, height-2), anew)
}

func (v *screenView) end(s snapshot) {
	// Below what was drawn, and what was typed.
	_, _ = fmt.Fprintf(v.out, "\r\n%s\r\nstopping\r\n", s.plain())
}

// screen is a snapshot as the lines of a screen, at most height of them. Where that does not do, the last
// deliveries go first, then blank lines, then what there is to try.
func (s snapshot) screen(guide []string, height int) []string {
	p := s.status
	head := []string{
		"Stowage quickstart: a week of earthquakes goes through a pipeline      " + clock(s.elapsed),
		"",
		fmt.Sprintf("  file      [%s] %s of %s fed", bar(s.fed, s.total, 40), thousands(s.fed), thousands(s.total)),
		fmt.Sprintf("  pipeline  %s: read %s, checkpoint at %s, lag %s", firstOf(string(p.State), "starting"), s.readHere("%s (%s before)"), thousands(s.saved), lagOf(p)),
	}
	if p.Error != "" {
		head = append(head, "            "+oneLine(p.Error))
	}
	counts := ""
	if s.before > 0 {
		counts = "    (all counts are of this run)"
	}
	head = append(head, "", "  monitor          matches  from gate  errors"+counts)
	for _, m := range p.Monitors {
		head = append(head, fmt.Sprintf("  %-15s %8s %10s %7s%s", m.ID, thousands(m.Matches), emitted(m), thousands(m.Errors), paused(m.Paused)))
	}
	head = append(head, "", "  sink           delivered  waiting  retries  duplicates  dead-lettered")
	for _, sink := range p.Sinks {
		head = append(head, fmt.Sprintf("  %-15s %8s %8s %8s %11s %14s%s", sink.ID, thousands(sink.Delivered), thousands(sink.Pending), thousands(sink.Retries),
			thousands(sink.Duplicates), thousands(sink.DeadLettered), paused(sink.Paused)))
	}
	receiver, kill := "stopped", ""
	if s.pid != 0 {
		receiver = fmt.Sprintf("up (http://%s, pid %d)", s.receiver, s.pid)
		kill = fmt.Sprintf(" (or: kill %d)", s.pid)
	}
	head = append(head, "",
		"  dead letters now: "+thousands(s.letters),
		fmt.Sprintf("  receiver: %s, took %s, %s of them twice", receiver, thousands(s.received.taken), thousands(s.received.again)))

	try := []string{"", "  try, in another terminal:"}
	for _, line := range guide {
		try = append(try, "    "+line)
	}
	foot := []string{"", "  r Enter: stop/start the receiver" + kill + "   q Enter, Ctrl-C: end all", ""}
	switch {
	case s.note != "":
		foot[2] = "  " + s.note
	case s.total > 0 && s.fed == s.total:
		foot[2] = "  " + fedAll(s)
	}

	room := height - len(head) - len(try) - len(foot)
	if room < 0 {
		head, try = withoutBlanks(head), withoutBlanks(try)
		foot = foot[1:]
		try = try[:max(0, min(len(try), height-len(head)-len(foot)))]
		head = head[:max(0, min(len(head), height-len(foot)))]
	}
	lines := append(append(append(head, s.deliveries(room)...), try...), foot...)
	return lines[:min(len(lines), max(height, 0))]
}

func withoutBlanks(lines []string) []string {
	return slices.DeleteFunc(lines, func(line string) bool { return line == "" })
}

// deliveries are the last ones, in so many lines as there is room for, or none.
func (s snapshot) deliveries(room int) []string {
	const around = 2 // the lines above them
	if room <= around {
		return nil
	}
	room = min(room-around, lastShown)
	shown := s.received.last[max(0, len(s.received.last)-room):]
	lines := []string{"", "  last deliveries to the receiver"}
	for _, item := range shown {
		lines = append(lines, "    "+item.quake())
	}
	for range room - len(shown) {
		lines = append(lines, "")
	}
	return lines
}

// emitted is what the gate of a monitor let through; most monitors have none.
func emitted(m types.MonitorStatus) string {
	if m.Emissions == 0 {
		return "-"
	}
	return thousands(m.Emissions)
}

func paused(yes bool) string {
	if yes {
		return "  paused"
	}
	return ""
}

// quake is a delivery of an earthquake in one line.
func (i receivedItem) quake() string {
	var event struct {
		Time  int64       `json:"time"`
		Mag   json.Number `json:"mag"`
		Place string      `json:"place"`
	}
	if json.Unmarshal(i.Event, &event) != nil {
		return i.line()
	}
	text := fmt.Sprintf("%-7s %s  M %-4s %s", i.Monitor, time.UnixMilli(event.Time).UTC().Format("2006-01-02 15:04:05"), event.Mag, oneLine(event.Place))
	if i.Hits > 0 {
		text += fmt.Sprintf("  (%d hits)", i.Hits)
	}
	if i.Again {
		text += "  (again)"
	}
	return text
}
