package ports

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stowage-go/stowage/types"
)

func TestErrorsSurviveTheWire(t *testing.T) {
	t.Parallel()
	var all []error
	for _, info := range Codes {
		all = append(all, Errorf(info.Code, "queue.ack", "what happened to %q <&>", "orders"))
	}
	for reason := range reasons {
		all = append(all, Errorf(CodeQueueOperationFailed, "queue.ack", "why").WithReason(reason))
	}
	transient := Errorf(CodeInvalidInput, "queue.send", "again")
	transient.Class = Transient
	permanent := Errorf(CodeBackendFailed, "queue.send", "never")
	permanent.Class = Permanent
	all = append(all, transient, permanent, fmt.Errorf("outer: %w", transient),
		&VersionConflictError{Op: "storage.put", Key: "thing/1", Expected: 3, Actual: 9})

	for _, err := range all {
		wire := NewWireError(err)
		body, encodeErr := EncodeJSON(wire)
		if encodeErr != nil {
			t.Fatal(encodeErr)
		}
		got, ok := DecodeWireError(wire.HTTPStatusCode, body)
		if !ok {
			t.Fatalf("%s is not taken for an error", body)
		}
		var want, have *Error
		if !errors.As(err, &want) || !errors.As(got, &have) {
			t.Fatalf("want *Error on both sides of %v, got %v", err, got)
		}
		if have.Code != want.Code || have.Reason != want.Reason || have.Op != want.Op || have.Message != want.Message ||
			have.Retryable() != want.Retryable() || have.Status() != want.Status() {
			t.Errorf("want %+v, got %+v", want, have)
		}
		var conflict *VersionConflictError
		if errors.As(err, &conflict) {
			var again *VersionConflictError
			if !errors.As(got, &again) || *again != *conflict {
				t.Errorf("want %+v, got %+v", conflict, got)
			}
		}
	}
}

func TestAStatusOfItsOwnLeavesTheErrorAsItIs(t *testing.T) {
	t.Parallel()
	err := WithStatus(Errorf(CodeInvalidInput, "queue.send", "too large"), http.StatusRequestEntityTooLarge)
	if !errors.Is(err, ErrInvalidInput) {
		t.Errorf("want INVALID_INPUT, got %v", err)
	}
	if wire := NewWireError(err); wire.HTTPStatusCode != 413 || wire.Code != CodeInvalidInput {
		t.Errorf("want 413 INVALID_INPUT, got %+v", wire)
	}
}

func TestAForeignErrorIsReportedWithoutItsText(t *testing.T) {
	t.Parallel()
	wire := NewWireError(errors.New("secret"))
	if wire.Code != CodeBackendFailed || strings.Contains(wire.Message, "secret") {
		t.Errorf("got %+v", wire)
	}
}

func TestWhatIsNoErrorBodyIsNotTakenForOne(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		body   string
	}{
		{502, "<html>bad gateway</html>"},
		{502, ""},
		{502, "{}"},
		{502, `{"code":"oops"}`},
		{502, `{"Code":"NOT_FOUND"}`},
		{502, `{"code":"NOT_FOUND","httpStatusCode":404}`},
		{200, `{"code":"NOT_FOUND"}`},
		{404, `{"code":"NOT_FOUND"} trailing`},
		{404, `{"code":"` + strings.Repeat("A", 65) + `"}`},
	} {
		if err, ok := DecodeWireError(c.status, []byte(c.body)); ok {
			t.Errorf("%d %q became %v", c.status, c.body, err)
		}
	}
	err, ok := DecodeWireError(418, []byte(`{"code":"NEW_CODE","message":"m","retryable":true,"hint":"x"}`))
	if !ok || !errors.Is(err, &Error{Code: "NEW_CODE"}) || !IsTransient(err) {
		t.Errorf("a code of a newer server: got %v, %v", err, ok)
	}
}

func TestBearerToken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []string
		want   string
	}{
		{nil, ""},
		{[]string{"Bearer abc"}, "abc"},
		{[]string{"bearer   a-._~+/b=="}, "a-._~+/b=="},
		{[]string{"Bearer"}, ""},
		{[]string{"Bearer "}, ""},
		{[]string{"Bearer =="}, ""},
		{[]string{"Bearer a b"}, ""},
		{[]string{"Bearer a,b"}, ""},
		{[]string{"Basic abc"}, ""},
		{[]string{"Bearer abc", "Bearer abc"}, ""},
		{[]string{"Bearer " + strings.Repeat("a", maxBearer+1)}, ""},
	} {
		if got := BearerToken(http.Header{"Authorization": c.values}); got != c.want {
			t.Errorf("%.40q: want %q, got %q", c.values, c.want, got)
		}
	}
}

func TestSeconds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0": 0, "-0": 0, "30": 30 * time.Second, "30.0": 30 * time.Second, "0.25": 250 * time.Millisecond, "1e1": 10 * time.Second,
		"43200": 12 * time.Hour, "43199.999": 12*time.Hour - time.Millisecond, "-1.5": -1500 * time.Millisecond, "0.001": time.Millisecond,
		"1000000000": 1e9 * time.Second,
	} {
		if got, err := ParseSeconds("", "x", json.RawMessage(text)); err != nil || got != want {
			t.Errorf("%s: want %v, got %v, %v", text, want, got, err)
		}
	}
	for _, text := range []string{`"30"`, "null", "true", "[]", "{}", "", "NaN", "Infinity", "1e10", "-1e10", "1e400", "0.0001", "1.0005"} {
		if got, err := ParseSeconds("", "x", json.RawMessage(text)); !errors.Is(err, ErrInvalidInput) {
			t.Errorf("%s: want INVALID_INPUT, got %v, %v", text, got, err)
		}
	}
	for _, millis := range []int64{0, 1, 10, 100, 999, 1000, 1001, 1010, 30_000, 43_199_999, 43_200_000} {
		raw := FormatSeconds(millis)
		if got, err := ParseSeconds("", "x", raw); err != nil || got.Milliseconds() != millis || !json.Valid(raw) {
			t.Errorf("%d became %s and %v, %v", millis, raw, got, err)
		}
	}
}

func TestReadBody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		header   http.Header
		body     string
		optional bool
		status   int // 0 means that it is taken
		want     string
	}{
		{"plain", http.Header{"Content-Type": {"application/json"}}, "{}", false, 0, "{}"},
		{"charset", http.Header{"Content-Type": {"Application/JSON; charset=UTF-8"}}, "{}", false, 0, "{}"},
		{"no type", nil, "{}", false, 415, ""},
		{"two types", http.Header{"Content-Type": {"application/json", "application/json"}}, "{}", false, 415, ""},
		{"text", http.Header{"Content-Type": {"text/plain"}}, "{}", false, 415, ""},
		{"odd type", http.Header{"Content-Type": {";;"}}, "{}", false, 415, ""},
		{"latin1", http.Header{"Content-Type": {"application/json; charset=latin1"}}, "{}", false, 415, ""},
		{"gzip", http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}, "{}", false, 415, ""},
		{"at the limit", http.Header{"Content-Type": {"application/json"}}, strings.Repeat(" ", 16), false, 0, strings.Repeat(" ", 16)},
		{"beyond", http.Header{"Content-Type": {"application/json"}}, strings.Repeat(" ", 17), false, 413, ""},
		{"optional and absent", nil, "", true, 0, "{}"},
		{"optional and there", http.Header{"Content-Type": {"application/json"}}, `{"a":1}`, true, 0, `{"a":1}`},
		{"optional without a type", nil, "{}", true, 415, ""},
	} {
		for _, chunked := range []bool{false, true} {
			if chunked && c.body == "" {
				continue
			}
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(c.body))
			r.Header = c.header
			if chunked {
				r.ContentLength = -1
			}
			got, err := ReadBody("op", httptest.NewRecorder(), r, BodyOptions{Limit: 16, Optional: c.optional})
			if c.status == 0 {
				if err != nil || string(got) != c.want {
					t.Errorf("%s: want %q, got %q, %v", c.name, c.want, got, err)
				}
				continue
			}
			if status := NewWireError(err).HTTPStatusCode; err == nil || status != c.status {
				t.Errorf("%s: want %d, got %d, %v", c.name, c.status, status, err)
			}
		}
	}
}

func TestABodyThatDoesNotComeIsGivenUp(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := ReadBody("op", w, r, BodyOptions{Limit: 16, Timeout: time.Millisecond})
		WriteError(w, r, slog.New(slog.DiscardHandler), err)
	}))
	defer server.Close()
	never, feed := io.Pipe()
	defer func() { _ = feed.Close() }()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, never)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusRequestTimeout {
		t.Errorf("want 408, got %d", response.StatusCode)
	}
}

func TestRefusedRequestsAreLoggedWithoutTheirContent(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r := httptest.NewRequest(http.MethodPost, "/v1/queues/orders?key=canary", strings.NewReader("canary"))
	r.Header.Set("Authorization", "Bearer canary")
	w := httptest.NewRecorder()
	Refuse(w, r, log, Errorf(CodeAuthenticationFailed, "queue.authenticate", "no"))
	if w.Code != 401 || w.Header().Get("WWW-Authenticate") != "Bearer" || w.Header().Get("Connection") != "close" ||
		w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("got %d %v", w.Code, w.Header())
	}
	if strings.Contains(out.String(), "canary") || strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), "AUTHENTICATION_FAILED") {
		t.Errorf("got %s", out.String())
	}
}

func TestABindingShowsItsTokenOnlyInItsWireForm(t *testing.T) {
	t.Parallel()
	b := types.QueueBinding{Endpoint: "http://127.0.0.1:7420/v1/queues/orders", Token: "canary"}
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).InfoContext(context.Background(), "m", "b", b, "in", struct{ B types.QueueBinding }{b})
	plain, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(b), fmt.Sprintf("%v %+v %#v %s %q", b, b, b, b, b), fmt.Sprintf("%+v", []any{&b, b}), out.String(), string(plain)} {
		if strings.Contains(text, "canary") {
			t.Errorf("the token shows: %s", text)
		}
	}
	wire, err := EncodeJSON(NewWireBinding(b))
	if want := `{"service":"local-queue-http","endpoint":"http://127.0.0.1:7420/v1/queues/orders","token":"canary"}`; err != nil || string(wire) != want {
		t.Errorf("want %s, got %s, %v", want, wire, err)
	}
}

func TestTheDeepestPayloadFitsIntoAnEnvelope(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", MaxJSONDepth) + strings.Repeat("]", MaxJSONDepth)
	if _, err := CompactJSON(deep); err != nil {
		t.Fatal(err)
	}
	if _, err := CompactJSON("[" + deep + "]"); err == nil {
		t.Error("one level more is taken")
	}
	type message struct {
		Data json.RawMessage `json:"data"`
	}
	type envelope struct {
		Messages []message `json:"messages"`
	}
	body, err := EncodeJSON(envelope{[]message{{json.RawMessage(deep)}}})
	if err != nil {
		t.Fatal(err)
	}
	var back envelope
	if err := DecodeJSON(body, &back); err != nil || string(back.Messages[0].Data) != deep {
		t.Errorf("got %v", err)
	}
}

// What a request holds in vain costs many times its size once it is decoded.
func TestARequestHoldsLittleAroundItsPayloads(t *testing.T) {
	t.Parallel()
	type message struct {
		Data json.RawMessage `json:"data"`
	}
	type request struct {
		Operation string    `json:"operation"`
		Message   *message  `json:"message"`
		Messages  []message `json:"messages"`
	}
	list := func(item string, n int) string { return strings.TrimSuffix(strings.Repeat(item+",", n), ",") }
	members := func(n int) string {
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf(`"%d":0`, i)
		}
		return strings.Join(names, ",")
	}
	for body, want := range map[string]string{
		`{"messages":[` + list("{}", 64) + `]}`:                                                    "",
		`{"messages":[` + list("{}", 65) + `]}`:                                                    "more than 64 entries",
		`{"messages":[` + list("1", 65) + `,`:                                                      "more than 64 entries", // found before the end
		`{` + members(65) + `}`:                                                                    "more than 64 entries",
		`{"operation":"x",` + members(63) + `}`:                                                    "",
		`{"message":{` + members(65) + `}}`:                                                        "more than 64 entries",
		`{"message":{"data":[` + list("1", 1000) + `]}}`:                                           "",
		`{"message":{"data":{` + members(1000) + `}}}`:                                             "",
		`{"messages":[{"data":[` + list("1", 1000) + `]},{"data":{"a":{` + members(1000) + `}}}]}`: "",
	} {
		err := DecodeBody("op", []byte(body), &request{}, AllowUnknown)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.40s… (%d bytes): want %q, got %v", body, len(body), want, err)
		}
	}
	var answer request
	if err := DecodeJSON([]byte(`{"messages":[`+list("{}", 1000)+`]}`), &answer); err != nil {
		t.Errorf("an answer has no such limit: %v", err)
	}
}
