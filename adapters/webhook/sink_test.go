package webhook

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func matchEvent(n int) types.SinkEvent {
	match := fixture.Match(n)
	return types.SinkEvent{Match: &match}
}

// serve starts a server on the loopback that the test stops.
func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

// newSink makes a sink that may connect to the loopback; the test closes it.
func newSink(t *testing.T, options Options) *Sink {
	t.Helper()
	options.AllowPrivate = true
	if options.Clock == nil {
		options.Clock = fixture.NewClock(fixture.Epoch())
	}
	sink, err := NewSink(options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sink.Close()) })
	return sink
}

// request is what a server got.
type request struct {
	header http.Header
	path   string
	body   string
}

func requestOf(t *testing.T, r *http.Request) request {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Errorf("the body of a request cannot be read: %v", err)
	}
	return request{r.Header, r.URL.RequestURI(), string(body)}
}

func TestSinkPostsTheDocumentedRequest(t *testing.T) {
	t.Parallel()
	got := make(chan request, 1)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			t.Errorf("the method is %s", r.Method)
		}
		got <- requestOf(t, r)
	})
	clock := fixture.NewClock(fixture.Epoch().Add(999 * time.Millisecond))
	sink := newSink(t, Options{
		URL: server.URL + "/hooks/a?key=1", Secrets: parse(t, publishedSecret+" "+otherSecret), Clock: clock,
		Header: http.Header{"Authorization": {"Bearer t0ken"}, "X-List": {"a", "b"}},
	})
	event := matchEvent(1)
	event.Match.Event = json.RawMessage(`{"place":"<Ätna> & more","mag":4.50}`)
	event.Traceparent = traceparent
	require.NoError(t, sink.Deliver(t.Context(), event))
	r := <-got
	require.Equal(t, `{"type":"match","timestamp":"2026-03-01T12:00:01.000Z","data":{"match_id":"match-000001","pipeline":"earthquakes","monitor":"strong","cursor":{"primary":1,"secondary":0},"event_index":0,"event_ts":1772366401000,"event":{"place":"<Ätna> & more","mag":4.50}}}`, r.body)
	require.Equal(t, "/hooks/a?key=1", r.path)
	for name, want := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "stowage", "Authorization": "Bearer t0ken", "Traceparent": traceparent,
		"Webhook-Id": "match-000001", "Webhook-Timestamp": "1772366400", "Content-Length": fmt.Sprint(len(r.body)),
	} {
		require.Equal(t, []string{want}, r.header.Values(name), name)
	}
	require.Equal(t, []string{"a", "b"}, r.header.Values("X-List"))
	require.Empty(t, r.header.Values("Accept-Encoding"))
	require.Len(t, strings.Fields(r.header.Get("Webhook-Signature")), 2)
	for _, secret := range []string{publishedSecret, otherSecret} {
		require.NoError(t, Verify(r.header, []byte(r.body), parse(t, secret), clock.Now(), 0))
	}

	clock.Advance(time.Hour)
	require.NoError(t, sink.Deliver(t.Context(), event))
	again := <-got
	require.Equal(t, r.body, again.body)
	require.Equal(t, "match-000001", again.header.Get("Webhook-Id"), "the same id")
	require.Equal(t, "1772370000", again.header.Get("Webhook-Timestamp"), "the time of each attempt")
	require.NoError(t, Verify(again.header, []byte(again.body), parse(t, publishedSecret), clock.Now(), 0))
}

func TestSinkPostsEmissionsUnsigned(t *testing.T) {
	t.Parallel()
	got := make(chan request, 1)
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) { got <- requestOf(t, r) })
	sink := newSink(t, Options{URL: server.URL, Header: http.Header{"User-Agent": {"mine/1"}}})
	emission := types.Emission{Match: fixture.Match(2), Key: "it", Hits: 3, FirstTS: 1, LastTS: 2}
	emission.Match.TS = 1 << 60
	require.NoError(t, sink.Deliver(t.Context(), types.SinkEvent{Emission: &emission, Traceparent: "odd\r\nHost: a"}))
	r := <-got
	require.True(t, strings.HasPrefix(r.body, `{"type":"emission","data":{"match":{"match_id":"match-000002",`), "a time that has no form is left out: %s", r.body)
	var back types.SinkEvent
	require.NoError(t, json.Unmarshal([]byte(r.body), &back))
	require.Equal(t, types.SinkEvent{Emission: &emission}, back)
	require.Equal(t, "mine/1", r.header.Get("User-Agent"))
	require.Equal(t, "match-000002", r.header.Get("Webhook-Id"))
	require.NotContains(t, r.header, "Webhook-Signature")
	require.NotContains(t, r.header, "Traceparent")
}

func TestSinkRefusesWhatIsNoEvent(t *testing.T) {
	t.Parallel()
	sink := newSink(t, Options{URL: "http://127.0.0.1:1/"})
	odd, nameless := matchEvent(1), matchEvent(1)
	odd.Match.Event = json.RawMessage(`{"payload`)
	nameless.Match.ID = "a\r\nb"
	both := matchEvent(1)
	both.Emission = &types.Emission{}
	for name, event := range map[string]types.SinkEvent{"empty": {}, "both": both, "no JSON": odd, "an id that is none": nameless} {
		err := sink.Deliver(t.Context(), event)
		require.ErrorIs(t, err, ports.ErrInvalidInput, name)
		require.False(t, ports.IsTransient(err), name)
		require.NotContains(t, err.Error(), "payload", name)
	}
}

func TestSinkTellsAnswersApart(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(int(status.Load()))
		fmt.Fprint(w, "the answer says p4yload")
	})
	sink := newSink(t, Options{URL: server.URL + "/hook?key=t0ken", Header: http.Header{"X-Key": {"t0ken"}}})
	for _, c := range []struct {
		status    int
		transient bool
		says      string
	}{
		{http.StatusBadRequest, false, "400 Bad Request"},
		{http.StatusUnauthorized, false, "secret of the sink"},
		{http.StatusForbidden, false, "secret of the sink"},
		{http.StatusNotFound, false, "404 Not Found"},
		{http.StatusRequestTimeout, true, "408"},
		{http.StatusConflict, true, "409"},
		{http.StatusGone, false, "wants no more events"},
		{http.StatusRequestEntityTooLarge, false, "413"},
		{http.StatusUnprocessableEntity, false, "422"},
		{http.StatusTooEarly, true, "425"},
		{http.StatusTooManyRequests, true, "429"},
		{499, false, "499"},
		{http.StatusInternalServerError, true, "500"},
		{http.StatusNotImplemented, true, "501"},
		{http.StatusServiceUnavailable, true, "503"},
		{599, true, "599"},
		{http.StatusMultipleChoices, false, "300"},
		{http.StatusMovedPermanently, false, "301"},
		{http.StatusFound, false, "302"},
		{http.StatusSeeOther, false, "303"},
		{http.StatusNotModified, false, "304"},
		{http.StatusTemporaryRedirect, false, "without saying where to"},
	} {
		status.Store(int64(c.status))
		err := sink.Deliver(t.Context(), matchEvent(1))
		require.ErrorIs(t, err, ports.ErrBackendFailed, c.status)
		require.Equal(t, c.transient, ports.IsTransient(err), "%d: %v", c.status, err)
		require.ErrorContains(t, err, c.says)
		require.ErrorContains(t, err, server.URL+"/hook")
		for _, hidden := range []string{"t0ken", "p4yload", "mag"} {
			require.NotContains(t, err.Error(), hidden)
		}
		_, asked := ports.RetryAfter(err)
		require.False(t, asked, c.status)
	}
	for _, good := range []int{200, 201, 202, 204, 299} {
		status.Store(int64(good))
		require.NoError(t, sink.Deliver(t.Context(), matchEvent(1)), good)
	}
}

func TestSinkHonoursRetryAfter(t *testing.T) {
	t.Parallel()
	clock := fixture.NewClock(fixture.Epoch())
	var status atomic.Int64
	var value atomic.Value
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", value.Load().(string))
		w.WriteHeader(int(status.Load()))
	})
	sink := newSink(t, Options{URL: server.URL, Clock: clock})
	date := func(d time.Duration) string { return fixture.Epoch().Add(d).Format(http.TimeFormat) }
	for _, code := range []int{408, 409, 425, 429, 500, 503} {
		for text, want := range map[string]time.Duration{
			"1": time.Second, "007": 7 * time.Second, "3600": time.Hour, "3601": time.Hour, "99999999999999999999": time.Hour,
			date(90 * time.Second): 90 * time.Second, date(48 * time.Hour): time.Hour,
			"0": 0, "-1": 0, "1.5": 0, "soon": 0, "": 0, "١": 0, date(-time.Minute): 0, date(0): 0,
		} {
			status.Store(int64(code))
			value.Store(text)
			err := sink.Deliver(t.Context(), matchEvent(1))
			require.True(t, ports.IsTransient(err))
			pause, asked := ports.RetryAfter(err)
			require.Equal(t, want > 0, asked, "%d with %q: %v", code, text, err)
			require.Equal(t, want, pause, "%d with %q", code, text)
		}
	}
	status.Store(404)
	value.Store("5")
	err := sink.Deliver(t.Context(), matchEvent(1))
	_, asked := ports.RetryAfter(err)
	require.False(t, asked || ports.IsTransient(err), "a permanent failure asks for nothing: %v", err)
}

func TestSinkFollowsRedirectsOnItsHostOnly(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int64
	other := serve(t, func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) })
	got := make(chan request, 10)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got <- requestOf(t, r)
		to := r.URL.Query().Get("to")
		if to == "" {
			return
		}
		w.Header().Set("Location", to)
		w.WriteHeader(map[string]int{"/307": 307, "/308": 308, "/302": 302}[r.URL.Path])
	})
	deliver := func(from, to string) error {
		return newSink(t, Options{URL: server.URL + from + "?to=" + url.QueryEscape(to), Secrets: parse(t, otherSecret)}).Deliver(t.Context(), matchEvent(1))
	}
	address := strings.TrimPrefix(server.URL, "http://")
	for _, to := range []string{"/final", "final", server.URL + "/final", "//" + address + "/final", "HTTP://" + address + "/final#part"} {
		for _, from := range []string{"/307", "/308"} {
			require.NoError(t, deliver(from, to), to)
			first, second := <-got, <-got
			require.Equal(t, "/final", second.path)
			require.Equal(t, first.body, second.body, "the POST is kept")
			require.Equal(t, first.header, second.header, "and so is all that signs it")
		}
	}
	for to, says := range map[string]string{
		other.URL + "/final":            "to no other host",
		"https://" + address + "/final": "to no other host",
		"http://me:t0ken@" + address:    "to no other host",
		"http://%zz/?t0ken":             "without saying where to",
	} {
		err := deliver("/307", to)
		require.ErrorContains(t, err, says, to)
		require.False(t, ports.IsTransient(err), to)
		require.NotContains(t, err.Error(), "t0ken")
		<-got
	}
	require.NoError(t, deliver("/307", "/"+strings.Repeat("long", 2000)))
	<-got
	<-got
	err := deliver("/302", "/final")
	require.ErrorContains(t, err, "another request than a POST")
	require.False(t, ports.IsTransient(err))
	<-got
	require.Zero(t, elsewhere.Load())
	require.Empty(t, got)
}

// A receiver redirects to any path, and errors are shown, logged and stored.
func TestAnErrorDoesNotGrowWithARedirect(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Location", "/"+strings.Repeat("%C3%A4", 5000))
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	err := newSink(t, Options{URL: server.URL}).Deliver(t.Context(), matchEvent(1))
	require.ErrorContains(t, err, "%C3%A4%")
	require.ErrorContains(t, err, "answered 400 Bad Request")
	require.Less(t, len(err.Error()), 1000)
}

// The failures of many connections read alike, or each would be another line in the log.
func TestAFailedConnectionIsToldWithoutItsPort(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		connection, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			err = errors.Join(connection.(*net.TCPConn).SetLinger(0), connection.Close())
		}
		if err != nil {
			t.Errorf("the connection cannot be reset: %v", err)
		}
	})
	var said []string
	for range 2 {
		err := newSink(t, Options{URL: server.URL}).Deliver(t.Context(), matchEvent(1))
		require.ErrorIs(t, err, ports.ErrOutcomeUnknown)
		require.ErrorContains(t, err, "connection reset by peer")
		said = append(said, err.Error())
	}
	require.Equal(t, said[0], said[1])
}

func TestSinkEndsRoundsOfRedirects(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.Header().Set("Location", "/")
		w.WriteHeader(http.StatusPermanentRedirect)
	})
	err := newSink(t, Options{URL: server.URL}).Deliver(t.Context(), matchEvent(1))
	require.ErrorContains(t, err, "more than 5 times")
	require.False(t, ports.IsTransient(err))
	require.EqualValues(t, 6, requests.Load())
}

// hangingUp is a server that reads a request and hangs up, after having answered some on the same
// connection.
func hangingUp(t *testing.T, answers int, answer string) (address string, requests *atomic.Int64) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	requests = new(atomic.Int64)
	var connections sync.WaitGroup
	connections.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Go(func() {
				defer connection.Close()
				reader := bufio.NewReader(connection)
				for n := 0; ; n++ {
					r, err := http.ReadRequest(reader)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					requests.Add(1)
					if n == answers {
						fmt.Fprint(connection, answer)
						return
					}
					fmt.Fprint(connection, "HTTP/1.1 204 No Content\r\n\r\n")
				}
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		connections.Wait()
	})
	return "http://" + listener.Addr().String(), requests
}

// The transport of net/http repeats what it takes for idempotent, and what a kept connection lost. A
// delivery is one request all the same.
func TestSinkRepeatsNothing(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{"nothing": "", "half a head": "HTTP/1.1 200 OK\r\nContent-", "no HTTP": "p4yload\r\n\r\n"} {
		for _, kept := range []int{0, 1} {
			address, requests := hangingUp(t, kept, answer)
			sink := newSink(t, Options{URL: address, Header: http.Header{"Idempotency-Key": {"1"}, "X-Idempotency-Key": {"1"}}})
			for range kept {
				require.NoError(t, sink.Deliver(t.Context(), matchEvent(1)))
			}
			err := sink.Deliver(t.Context(), matchEvent(1))
			require.ErrorIs(t, err, ports.ErrOutcomeUnknown, name)
			require.True(t, ports.IsTransient(err), name)
			require.NotContains(t, err.Error(), "p4yload")
			require.EqualValues(t, kept+1, requests.Load(), "%s after %d answers", name, kept)
		}
	}
}

func TestSinkTellsWhatWasNotSent(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(nil)
	server.Close()
	err := newSink(t, Options{URL: server.URL + "/hook?key=t0ken"}).Deliver(t.Context(), matchEvent(1))
	require.ErrorIs(t, err, ports.ErrUnavailable)
	require.True(t, ports.IsTransient(err))
	require.ErrorContains(t, err, "connection refused")
	require.NotContains(t, err.Error(), "t0ken")

	err = newSink(t, Options{URL: "http://no-such-host.invalid/"}).Deliver(t.Context(), matchEvent(1))
	require.ErrorIs(t, err, ports.ErrUnavailable)
	require.True(t, ports.IsTransient(err))
}

// slow is a server that reads a request, says the given, and then nothing more until the test ends.
func slow(t *testing.T, answer string) *httptest.Server {
	t.Helper()
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Errorf("the connection cannot be taken: %v", err)
			return
		}
		defer connection.Close()
		fmt.Fprint(connection, answer)
		<-stop
	}))
	t.Cleanup(func() { close(stop); server.Close() })
	return server
}

func TestSinkWaitsItsTimeOnly(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{"silent": "", "an endless head": "HTTP/1.1 200 OK\r\nA: ", "goes on soon": "HTTP/1.1 102 Processing\r\n\r\n"} {
		sink := newSink(t, Options{URL: slow(t, answer).URL, Timeout: 50 * time.Millisecond})
		err := sink.Deliver(t.Context(), matchEvent(1))
		require.ErrorIs(t, err, ports.ErrOutcomeUnknown, name)
		require.True(t, ports.IsTransient(err), name)
		require.ErrorContains(t, err, "no answer within 50ms", name)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "the time of the sink is not that of its caller")
	}
}

// A name that never resolves and a handshake that never ends count as time too, and nothing was sent.
func TestSinkWaitsItsTimeForAHandshake(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close() // it accepts nothing: the system completes the connection, and nobody speaks
	err = newSink(t, Options{URL: "https://" + listener.Addr().String(), Timeout: 50 * time.Millisecond}).Deliver(t.Context(), matchEvent(1))
	require.ErrorIs(t, err, ports.ErrUnavailable)
	require.ErrorContains(t, err, "no answer within 50ms")
}

func TestSinkEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(arrived); <-stop }))
	t.Cleanup(func() { close(stop); server.Close() })
	sink := newSink(t, Options{URL: server.URL})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	require.ErrorIs(t, sink.Deliver(ctx, matchEvent(1)), context.Canceled)
	require.ErrorIs(t, sink.Deliver(fixture.Cancelled(t), matchEvent(1)), context.Canceled)
}

// The head of an answer tells the outcome: a body that never ends, or is large, or breaks off, changes
// nothing.
func TestSinkDoesNotWaitForBodies(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"never ends":  "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nslow",
		"of no chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno chunk",
		"huge":        "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n" + strings.Repeat("a", 1<<20),
	} {
		sink := newSink(t, Options{URL: slow(t, answer).URL, Timeout: time.Minute})
		require.NoError(t, sink.Deliver(t.Context(), matchEvent(1)), name)
	}
	err := newSink(t, Options{URL: slow(t, "HTTP/1.1 503 X\r\nContent-Length: 10\r\n\r\nslow").URL, Timeout: time.Minute}).Deliver(t.Context(), matchEvent(1))
	require.ErrorContains(t, err, "503 Service Unavailable")
	err = newSink(t, Options{URL: slow(t, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n").URL, Timeout: time.Minute}).Deliver(t.Context(), matchEvent(1))
	require.ErrorContains(t, err, "101")
	require.False(t, ports.IsTransient(err))
}

func TestSinkPassesInterimAnswersOver(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusProcessing)
		w.WriteHeader(http.StatusAccepted)
	})
	require.NoError(t, newSink(t, Options{URL: server.URL}).Deliver(t.Context(), matchEvent(1)))
}

func TestSinkRefusesEndlessHeads(t *testing.T) {
	t.Parallel()
	address, _ := hangingUp(t, 0, "HTTP/1.1 200 OK\r\nA: "+strings.Repeat("a", 64<<10)+"\r\n\r\n")
	err := newSink(t, Options{URL: address}).Deliver(t.Context(), matchEvent(1))
	require.ErrorIs(t, err, ports.ErrOutcomeUnknown)
}

func TestSinkKeepsItsConnection(t *testing.T) {
	t.Parallel()
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, strings.Repeat("a", maxAnswerBytes-1))
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	sink := newSink(t, Options{URL: server.URL})
	for range 5 {
		require.ErrorContains(t, sink.Deliver(t.Context(), matchEvent(1)), "503")
	}
	require.EqualValues(t, 1, connections.Load())
}

func TestSinkSpeaksTLS(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // that a client hangs up in a handshake
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	require.NoError(t, newSink(t, Options{URL: server.URL, RootCAs: roots}).Deliver(t.Context(), matchEvent(1)))

	err := newSink(t, Options{URL: server.URL}).Deliver(t.Context(), matchEvent(1))
	require.ErrorIs(t, err, ports.ErrUnavailable)
	require.ErrorContains(t, err, "certificate does not verify")
	require.True(t, ports.IsTransient(err), "it is renewed at the other end")
	require.EqualValues(t, 1, requests.Load())

	plain := serve(t, func(http.ResponseWriter, *http.Request) { requests.Add(1) })
	err = newSink(t, Options{URL: "https" + strings.TrimPrefix(plain.URL, "http")}).Deliver(t.Context(), matchEvent(1))
	require.ErrorIs(t, err, ports.ErrUnavailable)
	require.ErrorContains(t, err, "it does not speak TLS")
	err = newSink(t, Options{URL: "http" + strings.TrimPrefix(server.URL, "https")}).Deliver(t.Context(), matchEvent(1))
	require.ErrorContains(t, err, "400")
	require.EqualValues(t, 1, requests.Load())
}

// What a name resolves to is looked at when it is connected to: a name server that gives another answer
// than it gave to a check does not lead into the own network.
func TestSinkConnectsToNoPrivateAddress(t *testing.T) {
	t.Parallel()
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(nil)
	server.Config.ConnState = func(net.Conn, http.ConnState) { connections.Add(1) }
	server.Start()
	t.Cleanup(server.Close)
	sink, err := NewSink(Options{URL: "http://example.com/hook"})
	require.NoError(t, err)
	defer sink.Close()
	port := server.URL[strings.LastIndexByte(server.URL, ':'):]
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"} {
		sink.target.Host = host + port // as if the name had come to mean this
		err = sink.Deliver(t.Context(), matchEvent(1))
		require.ErrorIs(t, err, ports.ErrBackendFailed, host)
		require.False(t, ports.IsTransient(err), host)
		require.ErrorContains(t, err, "allow_private = true", host)
	}
	require.Zero(t, connections.Load())
}

// Behind a proxy, the address that is connected to would say nothing.
func TestSinkUsesNoProxy(t *testing.T) {
	t.Parallel()
	sink, err := NewSink(Options{URL: "https://example.com/hook"})
	require.NoError(t, err)
	require.Nil(t, sink.transport.Proxy)
}

func TestSinkCloses(t *testing.T) {
	t.Parallel()
	arrived, answer := make(chan struct{}), make(chan struct{})
	server := serve(t, func(http.ResponseWriter, *http.Request) { close(arrived); <-answer })
	sink := newSink(t, Options{URL: server.URL})
	delivered, closed := make(chan error, 1), make(chan error, 1)
	go func() { delivered <- sink.Deliver(t.Context(), matchEvent(1)) }()
	<-arrived
	go func() { closed <- sink.Close() }()
	require.Eventually(t, func() bool {
		return ports.IsTransient(sink.Deliver(fixture.Cancelled(t), matchEvent(1))) // STORE_CLOSED, not the context's error
	}, 10*time.Second, time.Millisecond)
	require.Empty(t, closed, "a delivery is under way")
	close(answer)
	require.NoError(t, <-delivered, "what had begun is finished")
	require.NoError(t, <-closed)
	require.NoError(t, sink.Close())
	require.ErrorIs(t, sink.Deliver(t.Context(), matchEvent(1)), ports.ErrStoreClosed)
}

func TestSinkServesManyCallers(t *testing.T) {
	t.Parallel()
	var seen sync.Map
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body := requestOf(t, r)
		if err := Verify(body.header, []byte(body.body), parse(t, otherSecret), fixture.Epoch(), 0); err != nil {
			t.Error(err)
		}
		seen.Store(r.Header.Get("Webhook-Id"), true)
	})
	sink := newSink(t, Options{URL: server.URL, Secrets: parse(t, otherSecret)})
	var callers sync.WaitGroup
	for n := range 32 {
		callers.Go(func() {
			if err := sink.Deliver(t.Context(), matchEvent(n)); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	for n := range 32 {
		_, ok := seen.Load(string(fixture.MatchID(n)))
		require.True(t, ok, n)
	}
}
