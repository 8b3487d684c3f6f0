package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

func queueCommand(a *app) *cobra.Command {
	return group("queue", "Work with the queues of a daemon",
		`Work with the queues that a daemon owns. Commands that move messages use the token of the queue;
those that manage queues use the admin token. Both are found in the state directory when the command
runs on the machine of the daemon, and come from a file or the environment elsewhere.`,
		`  stowage queue create orders
  stowage queue send orders '{"id":1}'
  stowage queue receive orders --ack
  stowage queue stats orders`,
		queueCreateCommand(a),
		queueListCommand(a),
		queueDeleteCommand(a),
		queueSendCommand(a),
		queueReceiveCommand(a),
		queueAckCommand(a),
		queueNackCommand(a),
		queueRenewCommand(a),
		queuePurgeCommand(a),
		queueStatsCommand(a),
		queuePeekCommand(a),
		queueDiscardCommand(a),
		queueBindingCommand(a),
		queueRotateCommand(a),
		queueMigrateCommand(a),
	)
}

// openQueue makes a client of the queue. It sends nothing.
func (r *reach) openQueue(id string) (ports.QueueStore, error) {
	token, err := r.queueToken(id)
	if err != nil {
		return nil, err
	}
	return newQueueClient(r.address(), id, token)
}

// withQueue runs fn with a client of the queue.
func (r *reach) withQueue(id string, fn func(ports.Queue) error) error {
	q, err := r.openQueue(id)
	if err != nil {
		return err
	}
	return errors.Join(fn(q), q.Close())
}

func queueSendCommand(a *app) *cobra.Command {
	var text, file string
	var delay time.Duration
	var from int
	cmd := &cobra.Command{
		Use:   "send NAME [PAYLOAD]",
		Short: "Send one message, or every line of a file",
		Long: `Send one message to a queue: JSON as an argument, or text with --text. A success means that the
message is on the daemon's disk.

With --ndjson every line of a file, or of standard input with "-", is sent as one JSON message, in the
order of the lines, in batches of up to 10. Blank lines are passed over. A line that breaks a rule is
rejected with its number, and the others go in. After a failure of the connection nothing more is
sent: the command says how many messages are in the queue for certain, which lines may be, and from
which line to go on. It exits with 7 if the outcome of some is unknown, and with 8 if some were
rejected or not tried.`,
		Example: `  stowage queue send orders '{"id":1}'
  stowage queue send orders --text 'good morning' --delay 5m
  stowage queue send quakes --ndjson earthquakes.ndjson
  tail -f events.ndjson | stowage queue send events --ndjson -`,
		Args: cobra.RangeArgs(1, 2),
	}
	r := reachFlags(a, cmd, true, false)
	output := outputFlag(cmd)
	cmd.Flags().StringVar(&text, "text", "", "send this text, which may be empty, instead of JSON")
	cmd.Flags().StringVar(&file, "ndjson", "", "send each line of this file, or of standard input for -")
	cmd.Flags().DurationVar(&delay, "delay", 0, "hide the message for so long, up to 12h")
	cmd.Flags().IntVar(&from, "from-line", 1, "with --ndjson: the first line to send")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		flag, err := oneOf(cmd, "text", "ndjson")
		if err != nil {
			return err
		}
		switch {
		case flag != "" && len(args) == 2:
			return usagef("a payload and --%s exclude each other: give one of them", flag)
		case flag == "" && len(args) == 1:
			return usagef("there is nothing to send: give a JSON payload, --text or --ndjson")
		case flag != "ndjson" && cmd.Flags().Changed("from-line"):
			return usagef("--from-line goes with --ndjson")
		case from < 1:
			return usagef("--from-line is %d: lines are counted from 1", from)
		case flag == "ndjson" && cmd.Flags().Changed("delay"):
			return usagef("--delay and --ndjson exclude each other: a batch is visible at once")
		}
		if flag == "ndjson" {
			return r.withQueue(args[0], func(q ports.Queue) error {
				return sendFile(cmd.Context(), a, q, file, from, output.value)
			})
		}
		payload := types.Text(text)
		if flag == "" {
			payload = types.JSON([]byte(args[1]))
		}
		return r.withQueue(args[0], func(q ports.Queue) error {
			if err := q.Send(cmd.Context(), payload, types.SendOptions{Delay: delay}); err != nil {
				return err
			}
			report := sendReport{Sent: 1, RejectedLines: []rejectedLine{}}
			return emit(a.out, output.value, data{
				whole: report,
				table: func(t *table) { t.row("sent 1") },
			})
		})
	}
	return cmd
}

func sendFile(ctx context.Context, a *app, q ports.Queue, path string, from int, format string) error {
	f, size := a.in, int64(0)
	if path != "-" {
		var err error
		if f, err = os.Open(path); err != nil {
			return fmt.Errorf("read the messages: %w", err)
		}
		defer f.Close()
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return usagef("%s is a directory: give a file with one JSON message a line", path)
	} else if err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	bar := newProgress(a.err, size)
	s := &lineSender{
		queue: q,
		lines: newLineReader(ctx, f),
		from:  from,
		rejected: func(r rejectedLine) {
			bar.clear()
			fmt.Fprintf(a.err, "line %d: %s (%s)\n", r.Line, oneLine(r.Message), r.Code)
		},
		moved: func(bytes int64, sent, bad int) {
			bar.update(bytes, fmt.Sprintf("%d sent, %d rejected", sent, bad))
		},
	}
	report, err := s.run(ctx)
	bar.clear()
	printed := emit(a.out, format, data{
		whole: report,
		table: func(t *table) {
			for _, line := range report.summary() {
				t.row(line)
			}
		},
	})
	code := sendExit(report, err)
	if err != nil {
		return errors.Join(&exitError{code, fmt.Errorf("send the lines of %s: %w", path, err)}, printed)
	}
	if code != exitDone {
		return errors.Join(&quietError{code}, printed)
	}
	return printed
}

// delivery is a received message in the form of the protocol.
type delivery struct {
	Payload       payload `json:"payload"`
	ReceiptHandle string  `json:"receiptHandle"`
	Attempt       int64   `json:"attempt"`
	EnqueuedAt    int64   `json:"enqueuedAt"`
}

type payload struct {
	Type types.PayloadType `json:"type"`
	Data json.RawMessage   `json:"data"`
}

func wirePayload(p types.Payload) (payload, error) {
	if p.Type == types.PayloadJSON {
		return payload{p.Type, json.RawMessage(p.Data)}, nil
	}
	text, err := ports.EncodeJSON(p.Data)
	return payload{p.Type, text}, err
}

func queueReceiveCommand(a *app) *cobra.Command {
	var most int
	var wait, lease time.Duration
	var ack bool
	cmd := &cobra.Command{
		Use:   "receive NAME",
		Short: "Receive messages, and ack them if asked to",
		Long: `Receive up to --max messages, the oldest first, until nothing more is due. Each stays hidden from
others for the lease; ack it with its receipt handle when its work is done, or it comes back.

--wait waits for the first message; the later ones are taken as they are. That none came is no
failure: the exit code is 0, and nothing is printed but a note on standard error.

With --ack each batch is acked once it has been written to standard output; if it cannot be written,
it is given back and nothing is acked. -o jsonl prints one message a line as the HTTP protocol has it.`,
		Example: `  stowage queue receive orders
  stowage queue receive orders --max 100 --wait 20s --ack -o jsonl
  stowage queue receive orders --lease 10m -o json`,
		Args: cobra.ExactArgs(1),
	}
	r := reachFlags(a, cmd, true, false)
	output := outputFlag(cmd)
	cmd.Flags().IntVar(&most, "max", 1, "the most messages to receive; any number")
	cmd.Flags().DurationVar(&wait, "wait", 0, "how long to wait for the first message, up to 20s")
	cmd.Flags().DurationVar(&lease, "lease", 0, "how long the messages stay hidden, 1s to 12h (default 30s)")
	cmd.Flags().BoolVar(&ack, "ack", false, "ack the messages once they are written")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if most < 1 {
			return usagef("--max is %d: give 1 or more", most)
		}
		if cmd.Flags().Changed("lease") {
			if _, err := ports.CheckLease("queue.receive", max(lease, 1)); err != nil {
				return err
			}
		}
		return r.withQueue(args[0], func(q ports.Queue) error {
			in := &receiver{
				queue:   q,
				options: types.ReceiveOptions{Lease: lease, Wait: wait},
				most:    most,
				ack:     ack,
				out:     newDeliveryWriter(a.out, output.value),
			}
			err := in.run(cmd.Context())
			if err == nil && in.count == 0 {
				fmt.Fprintln(a.err, "no message is due")
			}
			if err != nil && in.count > 0 {
				fmt.Fprintf(a.err, "%d messages had been received before\n", in.count)
			}
			return err
		})
	}
	return cmd
}

// receiver receives, writes and acks batch after batch.
type receiver struct {
	queue   ports.Queue
	options types.ReceiveOptions
	most    int
	ack     bool
	out     *deliveryWriter
	count   int // messages that were written
}

func (in *receiver) run(ctx context.Context) error {
	err := in.receiveAll(ctx)
	// What was begun is ended in any case, so that what was printed can be parsed.
	return errors.Join(err, in.out.end())
}

func (in *receiver) receiveAll(ctx context.Context) error {
	for in.count < in.most {
		options := in.options
		options.Max = min(in.most-in.count, ports.MaxBatch)
		messages, err := in.queue.Receive(ctx, options)
		if err != nil {
			return err
		}
		if len(messages) == 0 {
			return nil
		}
		in.options.Wait = 0
		if err := in.out.write(messages); err != nil {
			return errors.Join(err, in.giveBack(ctx, messages))
		}
		in.count += len(messages)
		if !in.ack {
			continue
		}
		if err := ackAll(context.WithoutCancel(ctx), in.queue, receiptsOf(messages), func(string, error) {}); err != nil {
			return err
		}
	}
	return nil
}

// giveBack makes messages visible again that could not be written.
func (in *receiver) giveBack(ctx context.Context, messages []types.Message) error {
	var errs []error
	for _, m := range messages {
		if err := in.queue.Nack(context.WithoutCancel(ctx), m.Receipt, types.NackOptions{}); err != nil {
			errs = append(errs, fmt.Errorf("give a message back that could not be written: %w", err))
		}
	}
	return errors.Join(errs...)
}

func receiptsOf(messages []types.Message) []string {
	receipts := make([]string, len(messages))
	for i, m := range messages {
		receipts[i] = m.Receipt
	}
	return receipts
}

// deliveryWriter writes messages as they come, each batch flushed.
type deliveryWriter struct {
	w      *bufio.Writer
	format string
	count  int
}

func newDeliveryWriter(w io.Writer, format string) *deliveryWriter {
	return &deliveryWriter{w: bufio.NewWriter(w), format: format}
}

const deliveryRow = "%-7s  %-24s  %-42s  %s\n"

func (d *deliveryWriter) write(messages []types.Message) error {
	for _, m := range messages {
		if err := d.one(m); err != nil {
			return fmt.Errorf("write a message: %w", err)
		}
		d.count++
	}
	if err := d.w.Flush(); err != nil {
		return fmt.Errorf("write messages: %w", err)
	}
	return nil
}

func (d *deliveryWriter) one(m types.Message) error {
	if d.format == formatTable {
		if d.count == 0 {
			fmt.Fprintf(d.w, deliveryRow, "ATTEMPT", "ENQUEUED", "RECEIPT", "PAYLOAD")
		}
		_, err := fmt.Fprintf(d.w, deliveryRow, strconv.FormatInt(m.Attempt, 10), timestamp(m.EnqueuedAt), m.Receipt, printable(m.Payload.Data))
		return err
	}
	wire, err := wirePayload(m.Payload)
	if err != nil {
		return err
	}
	text, err := ports.EncodeJSON(delivery{wire, m.Receipt, m.Attempt, m.EnqueuedAt.UnixMilli()})
	if err != nil {
		return err
	}
	if d.format == formatJSONL {
		_, err = d.w.Write(append(text, '\n'))
		return err
	}
	head := ",\n  "
	if d.count == 0 {
		head = "{\"messages\":[\n  "
	}
	_, err = d.w.WriteString(head + string(text))
	return err
}

func (d *deliveryWriter) end() error {
	if d.format != formatJSON {
		return nil
	}
	if d.count == 0 {
		_, _ = d.w.WriteString("{\"messages\":[")
	}
	_, _ = d.w.WriteString("]}\n") // the flush returns what went wrong
	return d.w.Flush()
}

func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// ackAll acks receipts in batches and returns one error for all that failed: partly done if others
// were acked. Each failure is told to failed.
func ackAll(ctx context.Context, q ports.Queue, receipts []string, failed func(receipt string, err error)) error {
	var first error
	acked, bad := 0, 0
	for batch := receipts; len(batch) > 0; {
		n := min(len(batch), ports.MaxBatch)
		outcomes, err := q.AckBatch(ctx, batch[:n])
		if err != nil && len(outcomes) != n {
			outcomes = make([]types.AckOutcome, n)
			for i := range outcomes {
				outcomes[i] = types.AckOutcome{Status: types.AckRejected, Err: err}
			}
		}
		for i, o := range outcomes {
			if o.Err == nil {
				acked++
				continue
			}
			bad++
			if first == nil || isUnknown(o.Err) && !isUnknown(first) {
				first = o.Err
			}
			failed(batch[i], o.Err)
		}
		batch = batch[n:]
		if err != nil {
			break // what comes after would fail in the same way, or is not to be touched
		}
	}
	if first == nil {
		return nil
	}
	err := fmt.Errorf("ack: %d of %d receipts: %w", bad, len(receipts), first)
	if acked > 0 && !isUnknown(first) {
		return &exitError{exitPartly, err}
	}
	return err
}

func queueAckCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ack NAME RECEIPT...",
		Short: "Remove messages whose work is done",
		Long: `Remove the messages of the receipt handles. A handle whose message is gone already succeeds, so that
the command can be repeated. One of an earlier delivery is stale: somebody else has the message now,
which is left alone, and the exit code is 4, or 8 if other messages were removed.`,
		Example: `  stowage queue ack orders 17:0f8fad5b-d9cb-469f-a165-70867728950e`,
		Args:    cobra.MinimumNArgs(2),
	}
	r := reachFlags(a, cmd, true, false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return r.withQueue(args[0], func(q ports.Queue) error {
			return ackAll(cmd.Context(), q, args[1:], func(receipt string, err error) {
				if len(args) > 2 {
					fmt.Fprintf(a.err, "receipt %s: %s\n", printable(receipt), oneLine(describe(err)))
				}
			})
		})
	}
	return cmd
}

func queueNackCommand(a *app) *cobra.Command {
	var delay time.Duration
	cmd := &cobra.Command{
		Use:   "nack NAME RECEIPT",
		Short: "Give a message back",
		Long: `Make the message of the receipt handle visible again: at once, or after --delay, which also ends the
receipt. Its count of attempts stays. A stale handle gives exit code 4.`,
		Example: `  stowage queue nack orders 17:0f8fad5b-d9cb-469f-a165-70867728950e --delay 1m`,
		Args:    cobra.ExactArgs(2),
	}
	r := reachFlags(a, cmd, true, false)
	cmd.Flags().DurationVar(&delay, "delay", 0, "hide the message for so long, up to 12h")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return r.withQueue(args[0], func(q ports.Queue) error {
			return q.Nack(cmd.Context(), args[1], types.NackOptions{Delay: delay})
		})
	}
	return cmd
}

func queueRenewCommand(a *app) *cobra.Command {
	var lease time.Duration
	cmd := &cobra.Command{
		Use:   "renew NAME RECEIPT",
		Short: "Extend the lease of a message",
		Long: `Hide the message of the receipt handle for a full lease from now on, for work that takes longer than
expected. A stale handle gives exit code 4.`,
		Example: `  stowage queue renew orders 17:0f8fad5b-d9cb-469f-a165-70867728950e --lease 10m`,
		Args:    cobra.ExactArgs(2),
	}
	r := reachFlags(a, cmd, true, false)
	cmd.Flags().DurationVar(&lease, "lease", ports.DefaultLease, "the lease from now on, 1s to 12h")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if lease == 0 {
			lease = 1 // too short, where zero would mean the default
		}
		return r.withQueue(args[0], func(q ports.Queue) error {
			return q.Renew(cmd.Context(), args[1], types.RenewOptions{Lease: lease})
		})
	}
	return cmd
}

func queuePurgeCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "purge NAME",
		Short: "Remove every message of a queue",
		Long: `Remove every message of a queue: visible, in flight, delayed and undecodable. There is no way back.
On a terminal the command asks first; elsewhere it wants --yes.`,
		Example: `  stowage queue purge orders --yes`,
		Args:    cobra.ExactArgs(1),
	}
	r := reachFlags(a, cmd, true, false)
	yes := yesFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		q, err := r.openQueue(args[0])
		if err != nil {
			return err
		}
		defer q.Close()
		if err := a.confirm(cmd.Context(), *yes, fmt.Sprintf("Remove every message of the queue %s?", args[0])); err != nil {
			return err
		}
		return q.Purge(cmd.Context())
	}
	return cmd
}

func queueStatsCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stats NAME",
		Short: "Count the messages of a queue",
		Long: `Count the messages of a queue: visible ones are due, those in flight have been received and not acked,
delayed ones wait for their time; total is the sum of the three. Undecodable rows are set aside.`,
		Example: `  stowage queue stats orders
  stowage queue stats orders -o json`,
		Args: cobra.ExactArgs(1),
	}
	r := reachFlags(a, cmd, true, false)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return r.withQueue(args[0], func(q ports.Queue) error {
			stats, err := q.Stats(cmd.Context())
			if err != nil {
				return err
			}
			return emit(a.out, output.value, data{
				whole: ports.NewWireStats(stats),
				table: func(t *table) {
					t.row("TOTAL", "VISIBLE", "IN FLIGHT", "DELAYED", "UNDECODABLE", "OLDEST")
					t.row(count(stats.Total), count(stats.Visible), count(stats.InFlight), count(stats.Delayed), count(stats.Undecodable), stats.OldestAge.Round(time.Millisecond).String())
				},
			})
		})
	}
	return cmd
}

func count(n int64) string { return strconv.FormatInt(n, 10) }

// peeked is a message that was looked at, in the form of the protocol.
type peeked struct {
	ID         int64              `json:"id"`
	Payload    *payload           `json:"payload,omitempty"`
	State      types.MessageState `json:"state"`
	Attempt    int64              `json:"attempt"`
	EnqueuedAt int64              `json:"enqueuedAt"`
	VisibleAt  int64              `json:"visibleAt"`
}

func queuePeekCommand(a *app) *cobra.Command {
	var most int
	cmd := &cobra.Command{
		Use:   "peek NAME",
		Short: "Look at messages without receiving them",
		Long: `Look at up to 10 messages without receiving them: those that are due first, in the order in which they
would be received, then hidden ones, then rows that cannot be decoded.`,
		Example: `  stowage queue peek orders --max 3 -o jsonl`,
		Args:    cobra.ExactArgs(1),
	}
	r := reachFlags(a, cmd, true, false)
	output := outputFlag(cmd)
	cmd.Flags().IntVar(&most, "max", ports.MaxBatch, "the most messages to show, 1 to 10")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if most == 0 {
			return usagef("--max is 0: give 1 to %d", ports.MaxBatch)
		}
		return r.withQueue(args[0], func(q ports.Queue) error {
			messages, err := q.Peek(cmd.Context(), types.PeekOptions{Max: most})
			if err != nil {
				return err
			}
			wire := make([]peeked, len(messages))
			for i, m := range messages {
				if wire[i], err = wirePeeked(m); err != nil {
					return err
				}
			}
			return emit(a.out, output.value, data{
				whole: struct {
					Messages []peeked `json:"messages"`
				}{wire},
				items: anySlice(wire),
				table: func(t *table) {
					t.row("ID", "STATE", "ATTEMPT", "ENQUEUED", "VISIBLE", "PAYLOAD")
					for _, m := range messages {
						t.row(count(m.ID), string(m.State), count(m.Attempt), timestamp(m.EnqueuedAt), timestamp(m.VisibleAt), m.Payload.Data)
					}
				},
			})
		})
	}
	return cmd
}

func wirePeeked(m types.PeekedMessage) (peeked, error) {
	p := peeked{m.ID, nil, m.State, m.Attempt, m.EnqueuedAt.UnixMilli(), m.VisibleAt.UnixMilli()}
	if m.State == types.StateUndecodable {
		return p, nil
	}
	wire, err := wirePayload(m.Payload)
	p.Payload = &wire
	return p, err
}

// yesFlag adds --yes to a command that destroys something.
func yesFlag(cmd *cobra.Command) *bool { return cmd.Flags().Bool("yes", false, "do not ask") }

// confirm asks on a terminal, unless the answer has been given by a flag.
func (a *app) confirm(ctx context.Context, yes bool, question string) error {
	if yes {
		return nil
	}
	if !isTerminal(a.in) || !isTerminal(a.err) {
		return usagef("this asks for a confirmation, and there is no terminal to ask on: add --yes")
	}
	fmt.Fprintf(a.err, "%s [y/N] ", question)
	answer, err := bufio.NewReader(a.input(ctx)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return exitf(exitFailed, "nothing was done")
}
