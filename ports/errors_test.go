package ports_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stowage-go/stowage/ports"
)

var codeSentinels = map[ports.Code]*ports.Error{
	ports.CodeInvalidInput:         ports.ErrInvalidInput,
	ports.CodeNotFound:             ports.ErrNotFound,
	ports.CodeAlreadyExists:        ports.ErrAlreadyExists,
	ports.CodeVersionConflict:      ports.ErrVersionConflict,
	ports.CodeInvalidConfig:        ports.ErrInvalidConfig,
	ports.CodeBindingSetupFailed:   ports.ErrBindingSetupFailed,
	ports.CodeBackendFailed:        ports.ErrBackendFailed,
	ports.CodeKvOperationFailed:    ports.ErrKvOperationFailed,
	ports.CodeQueueOperationFailed: ports.ErrQueueOperationFailed,
	ports.CodeStoreClosed:          ports.ErrStoreClosed,
	ports.CodeStoreReplaced:        ports.ErrStoreReplaced,
	ports.CodeOutcomeUnknown:       ports.ErrOutcomeUnknown,
	ports.CodeAuthenticationFailed: ports.ErrAuthenticationFailed,
	ports.CodeCheckpointProvenance: ports.ErrCheckpointProvenance,
}

var reasonSentinels = map[ports.Reason]*ports.Error{
	ports.ReasonStaleReceipt: ports.ErrStaleReceipt,
	ports.ReasonRevoked:      ports.ErrRevoked,
	ports.ReasonInUse:        ports.ErrInUse,
	ports.ReasonDiskFull:     ports.ErrDiskFull,
	ports.ReasonReadOnly:     ports.ErrReadOnly,
	ports.ReasonCorrupt:      ports.ErrCorrupt,
	ports.ReasonBusy:         ports.ErrBusy,
	ports.ReasonUnsupported:  ports.ErrUnsupported,
	ports.ReasonUnavailable:  ports.ErrUnavailable,
	ports.ReasonUndecodable:  ports.ErrUndecodable,
	ports.ReasonNoPayload:    ports.ErrNoPayload,
	ports.ReasonPaused:       ports.ErrPaused,
	ports.ReasonRateLimited:  ports.ErrRateLimited,
}

func TestEveryCodeMatchesItsSentinelAlone(t *testing.T) {
	t.Parallel()
	if len(ports.Codes) != len(codeSentinels) {
		t.Errorf("%d codes in the table, %d sentinels", len(ports.Codes), len(codeSentinels))
	}
	for _, info := range ports.Codes {
		err := fmt.Errorf("while testing: %w", ports.Errorf(info.Code, "kv.put", "nothing works"))
		for code, sentinel := range codeSentinels {
			if got, want := errors.Is(err, sentinel), code == info.Code; got != want {
				t.Errorf("errors.Is(%s, %s) is %v, want %v", info.Code, code, got, want)
			}
		}
		for reason, sentinel := range reasonSentinels {
			if errors.Is(err, sentinel) {
				t.Errorf("%s without a reason is %s", info.Code, reason)
			}
		}
		var e *ports.Error
		if !errors.As(err, &e) || e.Code != info.Code || e.Op != "kv.put" {
			t.Errorf("%s: errors.As gives %+v", info.Code, e)
		}
		if e.Status() != info.Status || e.Retryable() != (info.Class == ports.Transient) || ports.IsTransient(err) != e.Retryable() {
			t.Errorf("%s: status %d and retryable %v, want %d and %s", info.Code, e.Status(), e.Retryable(), info.Status, info.Class)
		}
	}
}

func TestEveryReasonMatchesItsSentinelUnderItsCode(t *testing.T) {
	t.Parallel()
	for _, info := range ports.Codes {
		for reason, sentinel := range reasonSentinels {
			err := ports.Errorf(info.Code, "op", "x").WithReason(reason)
			if want := sentinel.Code == "" || sentinel.Code == info.Code; errors.Is(err, sentinel) != want {
				t.Errorf("errors.Is(%s/%s, its sentinel) is %v, want %v", info.Code, reason, !want, want)
			}
			if !errors.Is(err, codeSentinels[info.Code]) {
				t.Errorf("%s/%s is not %s any more", info.Code, reason, info.Code)
			}
			for other, sentinel := range reasonSentinels {
				if other != reason && errors.Is(err, sentinel) {
					t.Errorf("%s/%s is %s as well", info.Code, reason, other)
				}
			}
		}
	}
}

func TestStaleReceiptsAndRevokedHandlesDiffer(t *testing.T) {
	t.Parallel()
	stale := ports.Errorf(ports.CodeQueueOperationFailed, "queue.ack", "stale").WithReason(ports.ReasonStaleReceipt)
	revoked := ports.Errorf(ports.CodeStoreClosed, "queue.ack", "deleted").WithReason(ports.ReasonRevoked)
	if stale.Retryable() || stale.Status() != 409 || !errors.Is(stale, ports.ErrQueueOperationFailed) {
		t.Errorf("a stale receipt: retryable %v, status %d", stale.Retryable(), stale.Status())
	}
	if errors.Is(stale, ports.ErrRevoked) || errors.Is(revoked, ports.ErrStaleReceipt) || !errors.Is(revoked, ports.ErrStoreClosed) || revoked.Retryable() {
		t.Error("a revoked handle is not told from a stale receipt")
	}
}

func TestReasonNeverHidesAFailedAuthentication(t *testing.T) {
	t.Parallel()
	err := ports.Errorf(ports.CodeAuthenticationFailed, "op", "no").WithReason(ports.ReasonRevoked)
	if err.Status() != 401 {
		t.Errorf("status %d, want 401", err.Status())
	}
}

func TestUnknownCodesAndReasonsFallBack(t *testing.T) {
	t.Parallel()
	later := &ports.Error{Code: "FROM_THE_FUTURE", Message: "x"}
	if later.Status() != 500 || later.Retryable() {
		t.Errorf("an unknown code: status %d, retryable %v; want 500 and permanent", later.Status(), later.Retryable())
	}
	err := ports.Errorf(ports.CodeKvOperationFailed, "op", "x").WithReason("from_the_future")
	if err.Status() != 502 || !err.Retryable() {
		t.Errorf("an unknown reason: status %d, retryable %v; want those of the code", err.Status(), err.Retryable())
	}
}

func TestClassOverridesTheDefault(t *testing.T) {
	t.Parallel()
	for _, e := range []*ports.Error{
		{Code: ports.CodeBackendFailed, Class: ports.Permanent},
		{Code: ports.CodeBackendFailed, Class: ports.Permanent, Reason: ports.ReasonBusy},
	} {
		if e.Retryable() {
			t.Errorf("%v is retryable", e)
		}
	}
	if e := (&ports.Error{Code: ports.CodeInvalidInput, Class: ports.Transient}); !e.Retryable() {
		t.Errorf("%v is not retryable", e)
	}
}

func TestErrorsUnwrapToTheirCause(t *testing.T) {
	t.Parallel()
	err := ports.Errorf(ports.CodeBindingSetupFailed, "kv.open", "cannot open %q: %w", "/x", fs.ErrPermission)
	if !errors.Is(err, fs.ErrPermission) || err.Error() != `kv.open: BINDING_SETUP_FAILED: cannot open "/x": permission denied` {
		t.Errorf("%v", err)
	}
	both := ports.Errorf(ports.CodeBackendFailed, "op", "%w, then %w", io.ErrUnexpectedEOF, fs.ErrClosed)
	if !errors.Is(both, io.ErrUnexpectedEOF) || !errors.Is(both, fs.ErrClosed) {
		t.Errorf("%v does not unwrap to both causes", both)
	}
	if plain := ports.Errorf(ports.CodeNotFound, "op", "no %s", "cause"); plain.Unwrap() != nil {
		t.Errorf("%v unwraps to %v", plain, plain.Unwrap())
	}
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]*ports.Error{
		"NOT_FOUND":                      {Code: ports.CodeNotFound},
		"kv.get: NOT_FOUND":              {Code: ports.CodeNotFound, Op: "kv.get"},
		"BACKEND_FAILED/disk_full: full": {Code: ports.CodeBackendFailed, Reason: ports.ReasonDiskFull, Message: "full"},
	} {
		if e.Error() != want {
			t.Errorf("got %q, want %q", e.Error(), want)
		}
	}
}

func TestWithReasonCopies(t *testing.T) {
	t.Parallel()
	err := ports.Errorf(ports.CodeBackendFailed, "op", "x: %w", io.EOF)
	full := err.WithReason(ports.ReasonDiskFull)
	if err.Reason != "" || full.Reason != ports.ReasonDiskFull || full.Message != err.Message || !errors.Is(full, io.EOF) {
		t.Errorf("%+v and %+v", err, full)
	}
}

func TestWithClassCopies(t *testing.T) {
	t.Parallel()
	err := ports.Errorf(ports.CodeBackendFailed, "sink.deliver", "status 404: %w", io.EOF)
	gone := err.WithClass(ports.Permanent)
	if err.Class != "" || !err.Retryable() || gone.Retryable() || ports.IsTransient(gone) || !errors.Is(gone, io.EOF) || gone.Message != err.Message {
		t.Errorf("%+v and %+v", err, gone)
	}
	if again := gone.WithReason(ports.ReasonBusy); again.Retryable() {
		t.Errorf("%+v: want the class to stand above the reason", again)
	}
}

func TestAnErrorMayAskForAPause(t *testing.T) {
	t.Parallel()
	err := ports.Errorf(ports.CodeBackendFailed, "sink.deliver", "status 429: %w", io.EOF)
	limited := err.WithRetryAfter(90 * time.Second)
	if err.RetryAfter != 0 || err.Reason != "" {
		t.Errorf("the error itself was changed: %+v", err)
	}
	if limited.Status() != 429 || !limited.Retryable() || !errors.Is(limited, ports.ErrRateLimited) || !errors.Is(limited, ports.ErrBackendFailed) || !errors.Is(limited, io.EOF) {
		t.Errorf("%v: status %d, retryable %v", limited, limited.Status(), limited.Retryable())
	}
	for name, tc := range map[string]struct {
		err  error
		want time.Duration
		asks bool
	}{
		"a pause":                      {limited, 90 * time.Second, true},
		"a pause, wrapped":             {fmt.Errorf("delivering: %w", limited), 90 * time.Second, true},
		"a pause of no time":           {err.WithRetryAfter(0), 0, true},
		"a pause in the past":          {err.WithRetryAfter(-time.Second), 0, true},
		"the reason alone":             {err.WithReason(ports.ReasonRateLimited), 0, true},
		"no pause":                     {err, 0, false},
		"another reason since":         {limited.WithReason(ports.ReasonBusy), 0, false},
		"another error":                {io.EOF, 0, false},
		"none":                         {nil, 0, false},
		"a conflict, which is another": {&ports.VersionConflictError{}, 0, false},
	} {
		if got, asks := ports.RetryAfter(tc.err); got != tc.want || asks != tc.asks {
			t.Errorf("%s: got %v and %v, want %v and %v", name, got, asks, tc.want, tc.asks)
		}
	}
}

func TestAnErrorWithDetailsIsNoSentinel(t *testing.T) {
	t.Parallel()
	err := ports.Errorf(ports.CodeNotFound, "op", "x")
	if errors.Is(err, ports.Errorf(ports.CodeNotFound, "op", "y")) || errors.Is(err, ports.Errorf(ports.CodeNotFound, "op", "x")) {
		t.Error("two errors with messages match each other")
	}
	if !errors.Is(err, err) {
		t.Error("an error does not match itself")
	}
	if errors.Is(err, io.EOF) {
		t.Error("an error matches one of another type")
	}
}

func TestContextErrorsAreNotTransient(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		nil, io.EOF, context.Canceled, context.DeadlineExceeded, fmt.Errorf("x: %w", context.Canceled),
		ports.Errorf(ports.CodeBackendFailed, "op", "gave up: %w", context.DeadlineExceeded),
	} {
		if ports.IsTransient(err) {
			t.Errorf("%v is transient", err)
		}
	}
	if err := fmt.Errorf("x: %w", ports.Errorf(ports.CodeStoreClosed, "op", "closing")); !ports.IsTransient(err) {
		t.Errorf("%v is not transient", err)
	}
}

func TestVersionConflictErrors(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("saving: %w", &ports.VersionConflictError{Op: "storage.put", Key: "rule/a", Expected: 3, Actual: 5})
	var conflict *ports.VersionConflictError
	if !errors.As(err, &conflict) || conflict.Expected != 3 || conflict.Actual != 5 {
		t.Errorf("errors.As gives %+v", conflict)
	}
	var e *ports.Error
	if !errors.As(err, &e) || e.Code != ports.CodeVersionConflict || e.Op != "storage.put" || e.Status() != 409 || e.Retryable() {
		t.Errorf("errors.As gives %+v", e)
	}
	if !errors.Is(err, ports.ErrVersionConflict) || errors.Is(err, ports.ErrAlreadyExists) || ports.IsTransient(err) {
		t.Error("it does not match VERSION_CONFLICT alone")
	}
	for _, part := range []string{"rule/a", "3", "5"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %s", err, part)
		}
	}
}

func TestCodesAreDistinctAndExplained(t *testing.T) {
	t.Parallel()
	var seen []ports.Code
	for _, info := range ports.Codes {
		if slices.Contains(seen, info.Code) || info.Meaning == "" || info.Status < 400 || info.Status > 599 ||
			info.Class != ports.Transient && info.Class != ports.Permanent {
			t.Errorf("the row %+v is incomplete or stands twice", info)
		}
		seen = append(seen, info.Code)
	}
}
