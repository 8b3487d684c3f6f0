package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

func pipelineCommand(a *app) *cobra.Command {
	return group("pipeline", "See, configure and feed the pipelines of the daemon",
		`See the pipelines that the daemon runs, configure them while it runs, and hand events to them. Pipelines
that stand in the configuration file are changed there; the others are resources of the kind "pipeline".`,
		`  stowage pipeline list
  stowage pipeline show earthquakes
  stowage pipeline put tides tides.json
  stowage pipeline post tides events.ndjson`,
		pipelineListCommand(a),
		pipelineShowCommand(a),
		pipelineGetCommand(a),
		pipelinePutCommand(a),
		pipelineDeleteCommand(a),
		pipelineTokenCommand(a),
		pipelinePostCommand(a),
	)
}

// completePipeline completes the first argument with the pipelines of the daemon. Where none answers,
// there is nothing to complete with.
func completePipeline(a *app) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		flag := func(name string) string {
			if f := cmd.Flags().Lookup(name); f != nil {
				return f.Value.String()
			}
			return ""
		}
		r := &reach{app: a, server: flag("server"), stateDir: flag("state-dir"), adminFile: flag("admin-token-file")}
		token, err := r.adminToken()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		client, err := newOperatorClient(r.address(), token)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.Background(), refusedTimeout)
		defer cancel()
		pipelines, err := client.Pipelines(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var ids []string
		for _, p := range pipelines {
			ids = append(ids, string(p.ID))
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}

func pipelineListCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the pipelines",
		Long: `List the pipelines of the daemon, ordered by id. EVENTS, MATCHES and DELIVERED count from the start of the
daemon; LAG is how long the oldest event has been read that is not dealt with, PENDING the number of
those; DEAD LETTERS are those that are stored now.`,
		Example: `  stowage pipeline list -o json`,
		Args:    cobra.NoArgs,
	}
	output := outputFlag(cmd)
	return operation(a, cmd, func(client operatorClient, _ []string) error {
		pipelines, err := client.Pipelines(cmd.Context())
		if err != nil {
			return err
		}
		counts, err := client.LetterCounts(cmd.Context())
		if err != nil {
			return err
		}
		letters := map[types.PipelineID]int64{}
		for _, c := range counts {
			letters[c.Pipeline] = c.Count
		}
		return emit(a.out, output.value, data{
			whole: struct {
				Pipelines []types.PipelineStatus `json:"pipelines"`
			}{pipelines},
			items: anySlice(pipelines),
			table: func(t *table) {
				t.row("PIPELINE", "STATE", "ORIGIN", "LAG", "PENDING", "EVENTS", "MATCHES", "DELIVERED", "DEAD LETTERS")
				for _, p := range pipelines {
					total := totalsOf(p)
					t.row(string(p.ID), string(p.State), string(p.Origin), lagOf(p), decimal(p.Pending), decimal(p.Events),
						decimal(total.matches), decimal(total.delivered), strconv.FormatInt(letters[p.ID], 10))
				}
			},
		})
	})
}

// totals are the counts of a pipeline over all its monitors and sinks.
type totals struct {
	matches, emissions                            uint64
	waiting, delivered, letters, doubles, retries uint64
}

func totalsOf(p types.PipelineStatus) totals {
	var t totals
	for _, m := range p.Monitors {
		t.matches += m.Matches
		t.emissions += m.Emissions
	}
	for _, s := range p.Sinks {
		t.waiting += s.Pending
		t.delivered += s.Delivered
		t.letters += s.DeadLettered
		t.doubles += s.Duplicates
		t.retries += s.Retries
	}
	return t
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// lagOf prints a lag, in a tenth of a second where it is short.
func lagOf(p types.PipelineStatus) string {
	lag := time.Duration(p.LagSeconds * float64(time.Second))
	if lag < time.Minute {
		return lag.Round(100 * time.Millisecond).String()
	}
	return lag.Round(time.Second).String()
}

func pipelineShowCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a pipeline with its monitors, sinks and errors",
		Long: `Show a pipeline as it stands: its state and cursors, its monitors with what they picked and what their
gates let through, its sinks with what they took, and the last error of each, with the time at which the
delivery is tried again if one waits for that. Counts are from the start of the daemon. -o json has all of
it, the latencies of the sinks too.`,
		Example: `  stowage pipeline show earthquakes
  stowage pipeline show earthquakes -o json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completePipeline(a),
	}
	output := outputFlag(cmd)
	return operation(a, cmd, func(client operatorClient, args []string) error {
		p, err := client.Pipeline(cmd.Context(), types.PipelineID(args[0]))
		if err != nil {
			return err
		}
		if output.value != formatTable {
			return emit(a.out, output.value, data{whole: p})
		}
		return showPipeline(a, p)
	})
}

// showPipeline prints a pipeline as tables with a blank line between them.
func showPipeline(a *app, p types.PipelineStatus) error {
	head := func(t *table) {
		state := string(p.State)
		if !p.RetryAt.IsZero() {
			state += ", started again at " + moment(p.RetryAt)
		}
		t.row("pipeline", string(p.ID))
		t.row("state", state)
		origin := string(p.Origin)
		if p.Version > 0 {
			origin += ", version " + decimal(p.Version)
		}
		t.row("origin", origin)
		t.row("source", firstOf(p.Source, "-"))
		t.row("read", cursorOf(p.Read))
		t.row("checkpoint", cursorOf(p.Checkpoint))
		t.row("lag", fmt.Sprintf("%s, %d events pending", lagOf(p), p.Pending))
		t.row("events", fmt.Sprintf("%d, bad %d", p.Events, p.BadEvents))
		t.row("restarts", decimal(p.Restarts))
		if p.Error != "" {
			t.row("error", oneLine(p.Error))
		}
	}
	monitors := func(t *table) {
		t.row("MONITOR", "PAUSED", "MATCHES", "EMISSIONS", "ERRORS", "LAST ERROR")
		for _, m := range p.Monitors {
			t.row(string(m.ID), yesNo(m.Paused), decimal(m.Matches), decimal(m.Emissions), decimal(m.Errors), firstOf(oneLine(m.LastError), "-"))
		}
	}
	sinks := func(t *table) {
		t.row("SINK", "MODULE", "PAUSED", "PENDING", "DELIVERED", "DEAD LETTERED", "DUPLICATES", "RETRIES", "LAST ERROR")
		for _, s := range p.Sinks {
			failure := "-"
			if s.LastError != "" {
				failure = moment(s.LastErrorAt) + " " + oneLine(s.LastError)
			}
			if !s.WaitingUntil.IsZero() {
				failure = "tried again at " + moment(s.WaitingUntil) + "; " + failure
			}
			t.row(string(s.ID), s.Module, yesNo(s.Paused), decimal(s.Pending), decimal(s.Delivered), decimal(s.DeadLettered), decimal(s.Duplicates), decimal(s.Retries), failure)
		}
	}
	var text bytes.Buffer
	for i, part := range []func(*table){head, monitors, sinks} {
		if i > 0 {
			text.WriteByte('\n')
		}
		if err := emit(&text, formatTable, data{table: part}); err != nil {
			return err
		}
	}
	_, err := a.out.Write(text.Bytes())
	return err
}

func cursorOf(c *types.Cursor) string {
	if c == nil {
		return "-"
	}
	return c.String()
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// pipelineMissing says what to do about a resource that is not there.
func pipelineMissing(op, id string) error {
	return ports.Errorf(ports.CodeNotFound, op, "there is no resource pipeline/%s: a pipeline of the configuration file stands there alone; \"stowage pipeline list\" shows the origin of each", id)
}

func pipelineGetCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Write the configuration of a pipeline to standard output",
		Long: `Write the configuration of a pipeline that is a resource, byte for byte as it was put. -o json gives it
with its version.`,
		Example: `  stowage pipeline get tides > tides.json`,
		Args:    cobra.ExactArgs(1),

		ValidArgsFunction: completePipeline(a),
	}
	output := outputFlag(cmd, formatRaw, formatJSON, formatJSONL)
	return operation(a, cmd, func(client operatorClient, args []string) error {
		r, found, err := client.GetResource(cmd.Context(), types.PipelineKind, args[0])
		if err != nil {
			return err
		}
		if !found {
			return pipelineMissing("pipeline.get", args[0])
		}
		if output.value != formatRaw {
			return emit(a.out, output.value, data{whole: resourceItem(r)})
		}
		if _, err := a.out.Write(r.Value); err != nil {
			return fmt.Errorf("write the configuration: %w", err)
		}
		return nil
	})
}

func pipelinePutCommand(a *app) *cobra.Command {
	var version uint64
	cmd := &cobra.Command{
		Use:   "put ID FILE",
		Short: "Configure a pipeline while the daemon runs",
		Long: `Configure a pipeline from a JSON file, or from standard input for -. The names are those of the
configuration file: {"source":{"module":…},"event_time":…,"fields":{…},"monitor":[{…}],"sink":[{…}]}. One that
is there is drained and replaced; its checkpoint stays, and it goes on where it was.

The daemon checks it first. One that could not be run is refused with what is wrong, and the one that is
there goes on. With --if-version only the version named is replaced; otherwise the one that is there when
the command runs. The new version is printed.`,
		Example: `  stowage pipeline put tides tides.json
  stowage pipeline get tides | sed 's/4.5/5/' | stowage pipeline put tides -`,
		Args: cobra.ExactArgs(2),

		ValidArgsFunction: completePipeline(a),
	}
	output := outputFlag(cmd)
	cmd.Flags().Uint64Var(&version, "if-version", 0, "replace this version")
	return operation(a, cmd, func(client operatorClient, args []string) error {
		if cmd.Flags().Changed("if-version") && version == 0 {
			return usagef("--if-version is 0: versions start at 1, and a pipeline is created without the flag")
		}
		id := args[0]
		value, err := a.readAll(cmd.Context(), args[1], ports.MaxJSONBytes)
		if err != nil {
			return err
		}
		if err := ports.CheckResource("pipeline.put", types.PipelineKind, id, value, version); err != nil {
			return err
		}
		expected := version
		if expected == 0 {
			current, _, err := client.GetResource(cmd.Context(), types.PipelineKind, id)
			if err != nil {
				return err
			}
			expected = current.Version
		}
		stored, err := client.PutResource(cmd.Context(), types.PipelineKind, id, value, expected)
		if err != nil {
			return err
		}
		return emit(a.out, output.value, data{
			whole: resourceItem{Kind: types.PipelineKind, ID: id, Version: stored},
			table: func(t *table) { t.row(fmt.Sprintf("pipeline %s has version %d", id, stored)) },
		})
	})
}

func pipelineDeleteCommand(a *app) *cobra.Command {
	var version uint64
	cmd := &cobra.Command{
		Use:   "delete ID",
		Short: "Stop a pipeline and delete its configuration",
		Long: `Drain and stop a pipeline that is a resource, and delete its configuration. Its checkpoint and its dead
letters stay: "checkpoint delete" and "deadletter discard" remove them. On a terminal the command asks
first; elsewhere it wants --yes, or --if-version, which deletes that version only.`,
		Example: `  stowage pipeline delete tides --yes`,
		Args:    cobra.ExactArgs(1),

		ValidArgsFunction: completePipeline(a),
	}
	yes := yesFlag(cmd)
	cmd.Flags().Uint64Var(&version, "if-version", 0, "delete it only if it has this version")
	return operation(a, cmd, func(client operatorClient, args []string) error {
		id := args[0]
		if err := ports.CheckResourceKey("pipeline.delete", types.PipelineKind, id); err != nil {
			return err
		}
		if cmd.Flags().Changed("if-version") {
			return client.DeleteResource(cmd.Context(), types.PipelineKind, id, version)
		}
		r, found, err := client.GetResource(cmd.Context(), types.PipelineKind, id)
		if err != nil {
			return err
		}
		if !found {
			return pipelineMissing("pipeline.delete", id)
		}
		if err := a.confirm(cmd.Context(), *yes, fmt.Sprintf("Stop the pipeline %s and delete its configuration of version %d?", id, r.Version)); err != nil {
			return err
		}
		return client.DeleteResource(cmd.Context(), types.PipelineKind, id, r.Version)
	})
}

func pipelineTokenCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token ID",
		Short: "Print the token with which events are posted to a pipeline",
		Long: `Print the token with which applications post events to a pipeline, and nothing else; it is made at the
first use. -o json prints it with the URL. It lets in to nothing but the events of that pipeline. Treat the
output as a secret.

To change it, remove the file pipeline-credentials/ID in the daemon's state directory: the next one counts
at once.`,
		Example: `  stowage pipeline token tides
  curl -H "Authorization: Bearer $(stowage pipeline token tides)" -H 'Content-Type: application/json' \
    -d '{"level":3.2}' http://127.0.0.1:7420/v1/pipelines/tides/events`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completePipeline(a),
	}
	output := outputFlag(cmd, formatRaw, formatJSON, formatJSONL)
	return operation(a, cmd, func(client operatorClient, args []string) error {
		binding, err := client.EventBinding(cmd.Context(), types.PipelineID(args[0]))
		if err != nil {
			return err
		}
		if output.value == formatRaw {
			_, err := fmt.Fprintln(a.out, binding.Token)
			return err
		}
		return emit(a.out, output.value, data{whole: struct {
			Endpoint string `json:"endpoint"`
			Token    string `json:"token"`
		}{binding.Endpoint, binding.Token}})
	})
}

// credentialsDir is where the tokens of pipelines are.
func credentialsDir(stateDir string) string { return filepath.Join(stateDir, "pipeline-credentials") }

// eventToken finds the token with which events are posted: in the file that a flag names, in the
// environment, or in the state directory. Where a pipeline has none yet, the admin token does.
func (r *reach) eventToken(id types.PipelineID) (string, error) {
	token, err := r.token(r.tokenFile, envToken, filepath.Join(credentialsDir(r.state()), string(id)), func() error { return fs.ErrNotExist })
	if errors.Is(err, fs.ErrNotExist) && r.tokenFile == "" {
		return r.adminToken()
	}
	return token, err
}

func pipelinePostCommand(a *app) *cobra.Command {
	var from int
	cmd := &cobra.Command{
		Use:   "post ID [FILE]",
		Short: "Hand events to a pipeline whose source takes them",
		Long: `Hand events to a pipeline whose source is of the module http: JSON, one event a line, from a file, or from
standard input for - or without one. Blank lines are passed over. What is accepted is durable.

The lines go in batches, each as a whole or not at all. The first failure, a line that is no JSON among
them, ends the command, which says how many events were accepted, which line is bad, and the line to go on
with; the exit code is 8 then if some were accepted, and 7 if nobody knows of the last batch.

The token is that of the pipeline, or the admin token: --token-file, else $` + envToken + `, else what the state
directory has.`,
		Example: `  stowage pipeline post tides events.ndjson
  echo '{"level":3.2}' | stowage pipeline post tides`,
		Args: cobra.RangeArgs(1, 2),

		ValidArgsFunction: completePipeline(a),
	}
	r := reachFlags(a, cmd, false, true)
	output := outputFlag(cmd)
	cmd.Flags().StringVar(&r.tokenFile, "token-file", "", "file whose first line is the token of the pipeline (default $"+envToken+" itself, else the state directory)")
	cmd.Flags().IntVar(&from, "from-line", 1, "pass over the lines before this one")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id := types.PipelineID(args[0])
		if err := ports.CheckPipeline("pipeline.post", id); err != nil {
			return err
		}
		if from < 1 {
			return usagef("--from-line is %d: lines are counted from 1", from)
		}
		input := a.in
		if len(args) == 2 && args[1] != "-" {
			f, err := os.Open(args[1])
			if err != nil {
				return fmt.Errorf("read the events: %w", err)
			}
			defer f.Close()
			input = f
		}
		token, err := r.eventToken(id)
		if err != nil {
			return err
		}
		client, err := newOperatorClient(r.address(), token)
		if err != nil {
			return err
		}
		p := eventPoster{lines: newLineReader(cmd.Context(), input), from: from, post: func(ctx context.Context, events [][]byte) error {
			return client.PostEvents(ctx, id, events...)
		}}
		return p.report(a, output.value, p.run(cmd.Context()))
	}
	return cmd
}

const (
	// postBatch and postBytes bound what is handed over at once: the daemon takes more.
	postBatch = 1000
	postBytes = 1 << 20
)

// eventPoster hands the lines of a file to a pipeline, each as one event, in their order.
type eventPoster struct {
	lines *lineReader
	from  int // the first line to take
	post  func(ctx context.Context, events [][]byte) error

	batch    [][]byte
	bytes    int
	first    int // the line of the batch's first event
	accepted int
	stopped  int  // the line to go on with after a failure
	bad      bool // whether that line is what failed
}

func (p *eventPoster) run(ctx context.Context) error {
	for {
		if err := context.Cause(ctx); err != nil {
			return p.stop(err)
		}
		l, err := p.lines.next()
		if errors.Is(err, io.EOF) {
			return p.flush(ctx)
		}
		if err != nil {
			return errors.Join(p.flush(ctx), err)
		}
		if l.number < p.from || !l.tooLong && len(bytes.TrimSpace(l.text)) == 0 {
			continue
		}
		event, err := eventOf(l)
		if err != nil {
			// What was read before is good, and goes in before the failure is reported.
			flushed := p.flush(ctx)
			p.bad = flushed == nil
			return errors.Join(flushed, p.stopAt(l.number, err))
		}
		if len(p.batch) == 0 {
			p.first = l.number
		}
		p.batch = append(p.batch, event)
		p.bytes += len(event)
		if len(p.batch) == postBatch || p.bytes >= postBytes || !p.lines.ready() {
			if err := p.flush(ctx); err != nil {
				return err
			}
		}
	}
}

func eventOf(l line) ([]byte, error) {
	if l.tooLong {
		return nil, ports.Errorf(ports.CodeInvalidInput, "pipeline.post", "line %d: it has more than %d bytes", l.number, maxLine)
	}
	event, err := ports.CompactJSON(string(l.text))
	if err != nil {
		return nil, ports.Errorf(ports.CodeInvalidInput, "pipeline.post", "line %d: it is not valid JSON: %w", l.number, err)
	}
	return []byte(event), nil
}

func (p *eventPoster) flush(ctx context.Context) error {
	if len(p.batch) == 0 {
		return nil
	}
	if err := context.Cause(ctx); err != nil {
		return p.stop(err)
	}
	// Once begun, a batch is seen to its end: the client bounds how long that takes.
	if err := p.post(context.WithoutCancel(ctx), p.batch); err != nil {
		return p.stop(err)
	}
	p.accepted += len(p.batch)
	p.batch, p.bytes = p.batch[:0], 0
	return nil
}

func (p *eventPoster) stop(err error) error {
	at := p.first
	if len(p.batch) == 0 {
		at = max(p.lines.count+1, p.from)
	}
	return p.stopAt(at, err)
}

func (p *eventPoster) stopAt(number int, err error) error {
	if p.stopped == 0 {
		p.stopped = number
	}
	return err
}

func (p *eventPoster) report(a *app, format string, err error) error {
	printed := emit(a.out, format, data{
		whole: struct {
			Accepted  int `json:"accepted"`
			StoppedAt int `json:"stoppedAt,omitempty"`
		}{p.accepted, p.stopped},
		table: func(t *table) {
			t.row(fmt.Sprintf("accepted %d", p.accepted))
			if p.stopped > 0 {
				t.row("stopped: " + p.advice(err))
			}
		},
	})
	switch {
	case err == nil:
		return printed
	case p.accepted > 0 && !isUnknown(err):
		return &exitError{exitPartly, errors.Join(err, printed)}
	}
	return errors.Join(err, printed)
}

// advice says what to do after a failure. Where the pipeline takes no events, or there is none, going on
// would fail in the same way.
func (p *eventPoster) advice(err error) string {
	var e *ports.Error
	refused := errors.As(err, &e) && (e.Code == ports.CodeNotFound || e.Code == ports.CodeAuthenticationFailed || e.Code == ports.CodeInvalidInput)
	switch {
	case p.bad && p.accepted == 0:
		return fmt.Sprintf("line %d is bad, and nothing of this call was accepted: mend the line, and go on with --from-line %d", p.stopped, p.stopped)
	case p.bad:
		return fmt.Sprintf("line %d is bad, and nothing from it on was accepted: mend the line, and go on with --from-line %d", p.stopped, p.stopped)
	case refused && p.accepted == 0:
		return "nothing of this call was accepted"
	}
	return fmt.Sprintf("go on with --from-line %d", p.stopped)
}

// shortened cuts a text to so many characters, the last of which says so.
func shortened(text string, width int) string {
	runes := []rune(text)
	if len(runes) <= width {
		return text
	}
	return strings.TrimRight(string(runes[:max(width-1, 0)]), " ") + "…"
}
