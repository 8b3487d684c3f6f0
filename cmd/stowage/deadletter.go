package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

func deadLetterCommand(a *app) *cobra.Command {
	cmd := group("deadletter", "See, replay and discard dead letters",
		`See, replay and discard the dead letters of the daemon's pipelines: matches that a sink gave up on. A
letter stays until a replay has delivered it, or until it is discarded.`,
		`  stowage deadletter list
  stowage deadletter list earthquakes --sink alerts
  stowage deadletter replay earthquakes --sink alerts --yes
  stowage deadletter discard earthquakes MATCH_ID`,
		deadLetterListCommand(a),
		deadLetterShowCommand(a),
		deadLetterReplayCommand(a),
		deadLetterDiscardCommand(a),
	)
	cmd.Aliases = []string{"dlq"}
	return cmd
}

// checkFilterFlags refuses a filter that is there and empty, as one from a variable that is not set is:
// it would pick every letter.
func checkFilterFlags(cmd *cobra.Command) error {
	for _, name := range []string{"monitor", "sink", "reason"} {
		if flag := cmd.Flags().Lookup(name); flag.Changed && flag.Value.String() == "" {
			return usagef("--%s is empty: give it something to pick by, or leave it out", name)
		}
	}
	return nil
}

// filterFlags adds the flags that pick letters.
func filterFlags(cmd *cobra.Command) *types.LetterFilter {
	f := &types.LetterFilter{}
	cmd.Flags().StringVar((*string)(&f.Monitor), "monitor", "", "only letters of this monitor")
	cmd.Flags().StringVar((*string)(&f.Sink), "sink", "", "only letters of this sink")
	cmd.Flags().StringVar(&f.Reason, "reason", "", "only letters whose reason has this text in it")
	return f
}

func deadLetterListCommand(a *app) *cobra.Command {
	var skip, take int
	cmd := &cobra.Command{
		Use:   "list [PIPELINE]",
		Short: "List dead letters, or count those of all pipelines",
		Long: `List the dead letters of a pipeline, in the order of their arrival; without a pipeline, count those of
all pipelines. --skip and --take page through them. A letter that cannot be decoded is listed with the
reason.`,
		Example: `  stowage deadletter list
  stowage deadletter list earthquakes --skip 100 --take 100 -o jsonl
  stowage dlq list earthquakes --monitor strong --reason 'status 503'`,
		Args: cobra.MaximumNArgs(1),
	}
	filter := filterFlags(cmd)
	output := outputFlag(cmd)
	cmd.Flags().IntVar(&skip, "skip", 0, "pass over so many letters")
	cmd.Flags().IntVar(&take, "take", 100, "the most letters to list; any number")
	return operation(a, cmd, func(client operatorClient, args []string) error {
		if err := checkFilterFlags(cmd); err != nil {
			return err
		}
		if len(args) == 0 {
			for _, name := range []string{"monitor", "sink", "reason", "skip", "take"} {
				if cmd.Flags().Changed(name) {
					return usagef("--%s goes with a pipeline: name one", name)
				}
			}
			return countLetters(cmd.Context(), a, client, output.value)
		}
		if skip < 0 || take < 0 {
			return usagef("--skip is %d and --take is %d: give 0 or above", skip, take)
		}
		return listLetters(cmd.Context(), a, client, types.PipelineID(args[0]), *filter, skip, take, output.value)
	})
}

type letterCountItem struct {
	Pipeline types.PipelineID `json:"pipeline"`
	Count    int64            `json:"count"`
}

func countLetters(ctx context.Context, a *app, client operatorClient, format string) error {
	counts, err := client.LetterCounts(ctx)
	if err != nil {
		return err
	}
	items := make([]letterCountItem, len(counts))
	for i, c := range counts {
		items[i] = letterCountItem(c)
	}
	return emit(a.out, format, data{
		whole: struct {
			Pipelines []letterCountItem `json:"pipelines"`
		}{items},
		items: anySlice(items),
		table: func(t *table) {
			t.row("PIPELINE", "DEAD LETTERS")
			for _, c := range items {
				t.row(string(c.Pipeline), strconv.FormatInt(c.Count, 10))
			}
		},
	})
}

func listLetters(ctx context.Context, a *app, client operatorClient, pipeline types.PipelineID, filter types.LetterFilter, skip, take int, format string) error {
	items := []letterItem{}
	var total int64
	query := types.LetterQuery{Skip: skip}
	for {
		query.Take = min(take-len(items), ports.MaxPageLimit)
		page, err := client.Letters(ctx, pipeline, filter, query)
		if err != nil {
			return err
		}
		if query.After == 0 {
			total = page.Total
		}
		for _, l := range page.Letters {
			items = append(items, newLetterItem(l))
		}
		if len(page.Letters) == 0 || len(items) >= take {
			break
		}
		query = types.LetterQuery{After: items[len(items)-1].Position}
	}
	if format == formatTable && int64(skip+len(items)) < total {
		defer fmt.Fprintf(a.err, "%d of %s are shown: go on with --skip %d\n", len(items), letters(total, "letter"), skip+len(items))
	}
	return emit(a.out, format, data{
		whole: struct {
			Letters []letterItem `json:"letters"`
			Total   int64        `json:"total"`
		}{items, total},
		items: anySlice(items),
		table: func(t *table) { letterTable(t, items) },
	})
}

func letterTable(t *table, items []letterItem) {
	t.row("MATCH", "MONITOR", "SINK", "CURSOR", "ATTEMPTS", "REASON")
	for _, item := range items {
		if item.Letter == nil {
			t.row(firstOf(string(item.MatchID), "(position "+strconv.FormatInt(item.Position, 10)+")"), "-", "-", "-", "-", oneLine(item.Error.Message))
			continue
		}
		l := item.Letter
		t.row(string(l.MatchID), string(l.Monitor), string(l.Sink), l.Cursor.String(), strconv.FormatUint(l.Attempts, 10), oneLine(l.Reason))
	}
}

func deadLetterShowCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show PIPELINE MATCH_ID",
		Short: "Show one dead letter with its payload",
		Long: `Show one dead letter, as JSON, with the payload that a replay would deliver. A letter of an older file
may have none. MATCH_ID is the whole id, 40 digits by custom, as "stowage dlq list PIPELINE" shows it.`,
		Example: `  stowage deadletter show earthquakes MATCH_ID`,
		Args:    cobra.ExactArgs(2),
	}
	output := outputFlag(cmd, formatJSON, formatJSONL)
	return operation(a, cmd, func(client operatorClient, args []string) error {
		letter, err := client.Letter(cmd.Context(), types.PipelineID(args[0]), types.MatchID(args[1]))
		if err != nil {
			return wholeID(err, args[0], args[1])
		}
		return emit(a.out, output.value, data{whole: newLetterItem(letter)})
	})
}

// wholeID says of a letter that was not found that its id may have been cut. The ids that pipelines give
// have 40 digits; a NOT_FOUND of one that is whole is about something else.
func wholeID(err error, pipeline, match string) error {
	var e *ports.Error
	if !errors.As(err, &e) || e.Code != ports.CodeNotFound || len(match) == matchDigits {
		return err
	}
	return fmt.Errorf("%w: give the whole id, as \"stowage dlq list %s\" shows it", err, pipeline)
}

// matchDigits is how long the ids of [types.NewMatchID] are.
const matchDigits = 40

// bulk is what replay and discard have in common.
type bulk struct {
	verb, done string // "replay", "replayed"
	one        func(operatorClient, context.Context, types.PipelineID, types.MatchID) error
	many       func(operatorClient, context.Context, types.PipelineID, types.LetterSelection) (types.BulkResult, error)
}

func deadLetterReplayCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay PIPELINE [MATCH_ID...]",
		Short: "Deliver dead letters again",
		Long: `Deliver dead letters to their sinks again: those that are named, those that the filters pick, or --all.
A letter that was delivered is removed; one whose sink fails stays, with one attempt more and the new
reason. A letter without a payload, and one whose pipeline, monitor or sink is paused, is refused.

With filters or --all the command first counts the letters; it touches none that arrives later. On a
terminal it asks before it begins; elsewhere it wants --yes. --dry-run counts only. The exit code is 8
if some were delivered and others were not, also when the daemon stopped or its storage failed in the
middle; it is 7 when the connection broke, and letters may have been delivered. What is left may be
replayed again.`,
		Example: `  stowage deadletter replay earthquakes MATCH_ID
  stowage deadletter replay earthquakes --sink alerts --dry-run
  stowage dlq replay earthquakes --all --yes`,
		Args: cobra.MinimumNArgs(1),
	}
	return bulkCommand(a, cmd, bulk{"replay", "replayed", operatorClient.ReplayLetter, operatorClient.ReplayLetters})
}

func deadLetterDiscardCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "discard PIPELINE [MATCH_ID...]",
		Short: "Remove dead letters without delivering them",
		Long: `Remove dead letters for good: those that are named, those that the filters pick, or --all.

With filters or --all the command first counts the letters; it touches none that arrives later. On a
terminal it asks before it begins; elsewhere it wants --yes. --dry-run counts only. The exit code is 8
if some were discarded and others were not, 7 when the connection broke.`,
		Example: `  stowage deadletter discard earthquakes MATCH_ID
  stowage deadletter discard earthquakes --reason 'no such channel' --dry-run
  stowage dlq discard earthquakes --all --yes`,
		Args: cobra.MinimumNArgs(1),
	}
	return bulkCommand(a, cmd, bulk{"discard", "discarded", operatorClient.DiscardLetter, operatorClient.DiscardLetters})
}

func bulkCommand(a *app, cmd *cobra.Command, b bulk) *cobra.Command {
	var all, dryRun bool
	filter := filterFlags(cmd)
	output := outputFlag(cmd)
	yes := yesFlag(cmd)
	cmd.Flags().BoolVar(&all, "all", false, b.verb+" every letter of the pipeline that is there now")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "count the letters, and do nothing")
	return operation(a, cmd, func(client operatorClient, args []string) error {
		ctx, pipeline, named := cmd.Context(), types.PipelineID(args[0]), args[1:]
		if err := checkFilterFlags(cmd); err != nil {
			return err
		}
		filtered := *filter != types.LetterFilter{}
		switch {
		case len(named) > 0 && (filtered || all || dryRun):
			return usagef("letters that are named and --all, --dry-run or a filter exclude each other: give one of them")
		case filtered && all:
			return usagef("--all and a filter exclude each other: give one of them")
		case len(named) == 0 && !filtered && !all:
			return usagef("nothing says which letters to %s: name them, give a filter, or --all", b.verb)
		case len(named) > 0:
			return b.each(ctx, a, client, pipeline, named, output.value)
		}
		preview, err := client.PreviewLetters(ctx, pipeline, *filter)
		if err != nil {
			return err
		}
		if dryRun {
			return emit(a.out, output.value, data{
				whole: struct {
					Count   int64 `json:"count"`
					Through int64 `json:"through"`
				}{preview.Count, preview.Through},
				table: func(t *table) { t.row(fmt.Sprintf("%s would be %s", letters(preview.Count, "letter"), b.done)) },
			})
		}
		if preview.Count == 0 {
			return b.report(a, output.value, types.BulkResult{})
		}
		if err := a.confirm(ctx, *yes, fmt.Sprintf("%s of %s will be %s. Go on?", letters(preview.Count, "dead letter"), pipeline, b.done)); err != nil {
			return err
		}
		result, err := b.many(client, ctx, pipeline, types.LetterSelection{Filter: *filter, Through: preview.Through})
		if err != nil {
			return b.cutShort(a, output.value, result, err)
		}
		return b.report(a, output.value, result)
	})
}

// cutShort is the error of an action that ended before it had come through. What was done, as far as
// that is known, is reported beside it.
func (b bulk) cutShort(a *app, format string, result types.BulkResult, err error) error {
	if result.Done+result.Failed == 0 {
		return err
	}
	printed := b.report(a, format, result)
	if outputClosed(printed, a.out.Name()) {
		printed = nil // what ended the action is the news
	}
	var quiet *quietError
	if printed != nil && !errors.As(printed, &quiet) {
		err = errors.Join(err, printed)
	}
	if result.Done > 0 && !isUnknown(err) {
		return &exitError{exitPartly, err}
	}
	return err
}

// each works on letters one by one, and goes on behind one that fails.
func (b bulk) each(ctx context.Context, a *app, client operatorClient, pipeline types.PipelineID, named []string, format string) error {
	for _, name := range named {
		if err := ports.CheckMatchID("deadletter."+b.verb, types.MatchID(name)); err != nil {
			return err
		}
	}
	if len(named) == 1 {
		if err := b.one(client, ctx, pipeline, types.MatchID(named[0])); err != nil {
			return wholeID(err, string(pipeline), named[0])
		}
		return b.report(a, format, types.BulkResult{Done: 1})
	}
	var result types.BulkResult
	for _, name := range named {
		err := b.one(client, ctx, pipeline, types.MatchID(name))
		if err == nil {
			result.Done++
			continue
		}
		if ctx.Err() != nil {
			return b.cutShort(a, format, result, err)
		}
		result.Failed++
		result.Failures = append(result.Failures, types.LetterFailure{MatchID: types.MatchID(name), Err: err})
	}
	return b.report(a, format, result)
}

// letters counts what is called so.
func letters(n int64, name string) string {
	if n != 1 {
		name += "s"
	}
	return strconv.FormatInt(n, 10) + " " + name
}

type failureItem struct {
	MatchID types.MatchID   `json:"match_id"`
	Error   ports.WireError `json:"error"`
}

func (b bulk) report(a *app, format string, result types.BulkResult) error {
	failures := []failureItem{}
	for _, f := range result.Failures {
		failures = append(failures, failureItem{f.MatchID, ports.NewWireError(f.Err)})
		fmt.Fprintf(a.err, "%s: %s\n", f.MatchID, oneLine(describe(f.Err)))
	}
	if more := result.Failed - int64(len(failures)); more > 0 {
		fmt.Fprintf(a.err, "%d more failed\n", more)
	}
	printed := emit(a.out, format, data{
		whole: struct {
			Done     int64         `json:"done"`
			Failed   int64         `json:"failed"`
			Failures []failureItem `json:"failures"`
		}{result.Done, result.Failed, failures},
		table: func(t *table) { t.row(fmt.Sprintf("%s %d, failed %d", b.done, result.Done, result.Failed)) },
	})
	switch {
	case result.Failed == 0:
		return printed
	case result.Done == 0:
		return errors.Join(&quietError{exitFailed}, printed)
	}
	return errors.Join(&quietError{exitPartly}, printed)
}
