package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/stowage-go/stowage/types"
)

const (
	defaultReceiver = "127.0.0.1:9000"

	// receiverKnown is how many ids a receiver remembers, to mark those that come again.
	receiverKnown = 100_000
	// receiverStop is how long it waits for requests that are under way.
	receiverStop = 5 * time.Second
)

// receiverReady is what a receiver says first, on standard error, in front of its URL.
const receiverReady = "receiver is ready at "

func receiverCommand(a *app) *cobra.Command {
	var listen, secretFile string
	var status, failEvery int
	var withParent bool
	cmd := &cobra.Command{
		Use:   "receiver",
		Short: "Run a small receiver of webhooks, for trying pipelines",
		Long: `Run a small receiver of webhooks that prints one line for each request: the time, the answer, and what
came. A match that it has had before is marked "again". With --secret-file it checks signatures, and
answers 401 where one is missing or wrong.

--status answers every request with that status and takes nothing; --fail-every answers every n-th so, with
503 unless --status says otherwise. The receiver keeps nothing and trusts whoever reaches it: it is for
trying things, not for production.`,
		Example: `  stowage receiver
  stowage receiver --listen 127.0.0.1:9001 --secret-file stowage-data/quickstart/webhook-secret
  stowage receiver --fail-every 3
  stowage receiver --status 503`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&listen, "listen", defaultReceiver, "host:port to listen on")
	flags.StringVar(&secretFile, "secret-file", "", "file with the secret of the signatures, whsec_…; without one, they are not checked")
	flags.IntVar(&status, "status", 0, "answer with this HTTP status, 400 to 599, and take nothing")
	flags.IntVar(&failEvery, "fail-every", 0, "answer every n-th request so, and take the others")
	flags.BoolVar(&withParent, "with-parent", false, "end when standard input ends")
	if err := flags.MarkHidden("with-parent"); err != nil {
		panic("stowage: " + err.Error()) // the flag was added one line above
	}
	output := outputFlag(cmd, formatTable, formatJSONL)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case flags.Changed("status") && (status < 400 || status > 599):
			return usagef("--status is %d: give a failure, 400 to 599", status)
		case flags.Changed("fail-every") && failEvery < 1:
			return usagef("--fail-every is %d: give 1 or above", failEvery)
		}
		secret := ""
		if secretFile != "" {
			text, err := os.ReadFile(secretFile)
			if err != nil {
				return fmt.Errorf("read the secret: %w", err)
			}
			secret = strings.TrimSpace(string(text))
		}
		r := &hookReceiver{print: receiverPrinter(a, output.value), status: status, failEvery: failEvery, known: newRecent(receiverKnown)}
		if err := r.accept(secret); err != nil {
			return err
		}
		ctx := cmd.Context()
		if withParent {
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(ctx)
			defer cancel()
			go func() {
				_, _ = io.Copy(io.Discard, a.in) // whatever ended it, the parent is gone
				cancel()
			}()
		}
		return r.serve(ctx, a, listen)
	}
	return cmd
}

// receivedItem is one request that a receiver got.
type receivedItem struct {
	At     time.Time `json:"at"`
	Status int       `json:"status"`
	// ID, Type and what follows are there where the request was a delivery that was taken.
	ID       types.MatchID    `json:"id,omitempty"`
	Type     string           `json:"type,omitempty"`
	Pipeline types.PipelineID `json:"pipeline,omitempty"`
	Monitor  types.MonitorID  `json:"monitor,omitempty"`
	Key      string           `json:"key,omitempty"`
	Hits     uint64           `json:"hits,omitempty"`
	// Again says that the id has come before.
	Again bool            `json:"again,omitempty"`
	Event json.RawMessage `json:"event,omitempty"`
	// Refused says why it was not taken.
	Refused string `json:"refused,omitempty"`
}

func newReceivedItem(event types.SinkEvent) receivedItem {
	origin := event.Origin()
	item := receivedItem{Type: "match", ID: origin.ID, Pipeline: origin.Pipeline, Monitor: origin.Monitor, Event: origin.Event}
	if e := event.Emission; e != nil {
		item.Type, item.Key, item.Hits = "emission", e.Key, e.Hits
	}
	return item
}

// line is the item in one line for a person.
func (i receivedItem) line() string {
	text := fmt.Sprintf("%s  %d  ", i.At.Format(time.TimeOnly), i.Status)
	if i.ID == "" {
		return text + "refused: " + oneLine(i.Refused)
	}
	text += fmt.Sprintf("%s/%s  %.12s", i.Pipeline, i.Monitor, i.ID)
	if i.Hits > 0 {
		text += fmt.Sprintf("  %d hits", i.Hits)
	}
	if i.Key != "" {
		text += "  " + i.Key
	}
	if i.Again {
		text += "  again"
	}
	return text + "  " + shortened(oneLine(string(i.Event)), 200)
}

// receiverPrinter prints items one a line. A receiver whose output is gone has nothing more to say, and
// its requests are answered all the same.
func receiverPrinter(a *app, format string) func(receivedItem) {
	var mu sync.Mutex
	return func(item receivedItem) {
		mu.Lock()
		defer mu.Unlock()
		if format == formatJSONL {
			_ = encodeJSON(a.out, item, "")
			return
		}
		_, _ = fmt.Fprintln(a.out, item.line())
	}
}

// hookReceiver takes webhooks, and fails where it is told to.
type hookReceiver struct {
	print     func(receivedItem)
	status    int
	failEvery int
	take      http.Handler

	mu       sync.Mutex
	requests int
	known    *recent
}

func (r *hookReceiver) accept(secret string) (err error) {
	r.take, err = newWebhookReceiver(secret, func(ctx context.Context, event types.SinkEvent) error {
		item := newReceivedItem(event)
		r.mu.Lock()
		item.Again = r.known.add(string(item.ID))
		r.mu.Unlock()
		item.At, item.Status = time.Now(), http.StatusNoContent
		r.print(item)
		return nil
	})
	return err
}

// fails reports whether the next request is to fail, and with what.
func (r *hookReceiver) fails() (int, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	status := r.status
	if status == 0 {
		status = http.StatusServiceUnavailable
	}
	if r.failEvery > 0 {
		return status, r.requests%r.failEvery == 0
	}
	return status, r.status != 0
}

// ServeHTTP implements http.Handler.
func (r *hookReceiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if status, fails := r.fails(); fails {
		r.print(receivedItem{At: time.Now(), Status: status, Refused: "as it was told to"})
		http.Error(w, "this receiver was told to fail", status)
		return
	}
	answer := &statusWriter{ResponseWriter: w, status: http.StatusOK}
	r.take.ServeHTTP(answer, request)
	if answer.status >= http.StatusMultipleChoices {
		r.print(receivedItem{At: time.Now(), Status: answer.status, Refused: answer.reason})
	}
}

// statusWriter keeps what a handler answers.
type statusWriter struct {
	http.ResponseWriter
	status int
	reason string
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status >= http.StatusMultipleChoices && w.reason == "" {
		w.reason = strings.TrimSpace(string(p))
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (r *hookReceiver) serve(ctx context.Context, a *app, address string) error {
	listener, err := listen(ctx, address, "receiver")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(a.err, "%shttp://%s\n", receiverReady, listener.Addr()); err != nil {
		return errors.Join(fmt.Errorf("say where the receiver is: %w", err), listener.Close())
	}
	server := &http.Server{
		Handler:           r,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), receiverStop)
	defer cancel()
	if err := server.Shutdown(limited); err != nil {
		return errors.Join(err, server.Close())
	}
	return nil
}

// recent remembers the last ids of a stream, up to a number of them.
type recent struct {
	ids  map[string]struct{}
	ring []string
	next int
}

func newRecent(size int) *recent {
	return &recent{ids: map[string]struct{}{}, ring: make([]string, 0, size)}
}

// add remembers an id and reports whether it was known.
func (r *recent) add(id string) (known bool) {
	if _, known = r.ids[id]; known {
		return true
	}
	r.ids[id] = struct{}{}
	if len(r.ring) < cap(r.ring) {
		r.ring = append(r.ring, id)
		return false
	}
	delete(r.ids, r.ring[r.next])
	r.ring[r.next] = id
	r.next = (r.next + 1) % len(r.ring)
	return false
}
