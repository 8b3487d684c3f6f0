package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
)

func TestEveryCodeHasAnExitCode(t *testing.T) {
	t.Parallel()
	require.Len(t, exitCodes, len(ports.Codes))
	for _, info := range ports.Codes {
		code, ok := exitCodes[info.Code]
		require.True(t, ok, "%s has no exit code", info.Code)
		assert.NotEqual(t, exitDone, code, "%s", info.Code)
	}
}

func TestExitCode(t *testing.T) {
	t.Parallel()
	ran := func(err error) error { return &ranError{err} }
	port := func(code ports.Code) *ports.Error { return ports.Errorf(code, "queue.ack", "message") }
	for _, test := range []struct {
		name string
		err  error
		want int
	}{
		{"none", nil, exitDone},
		{"of cobra", errors.New("unknown flag"), exitUsage},
		{"any", ran(errors.New("any")), exitFailed},
		{"of a port", ran(port(ports.CodeNotFound)), exitNotFound},
		{"wrapped", ran(fmt.Errorf("ack: %w", port(ports.CodeAuthenticationFailed))), exitDenied},
		{"joined", ran(errors.Join(port(ports.CodeInvalidConfig), nil)), exitUsage},
		{"version conflict", ran(&ports.VersionConflictError{Op: "put", Key: "k", Expected: 1, Actual: 2}), exitPrecondition},
		{"stale receipt", ran(port(ports.CodeQueueOperationFailed).WithReason(ports.ReasonStaleReceipt)), exitPrecondition},
		{"queue failure", ran(port(ports.CodeQueueOperationFailed)), exitFailed},
		{"in use", ran(port(ports.CodeBindingSetupFailed).WithReason(ports.ReasonInUse)), exitUnavailable},
		{"busy", ran(port(ports.CodeKvOperationFailed).WithReason(ports.ReasonBusy)), exitUnavailable},
		{"unreachable", ran(port(ports.CodeQueueOperationFailed).WithReason(ports.ReasonUnavailable)), exitUnavailable},
		{"revoked", ran(port(ports.CodeStoreClosed).WithReason(ports.ReasonRevoked)), exitUnavailable},
		{"no payload", ran(port(ports.CodeInvalidInput).WithReason(ports.ReasonNoPayload)), exitPrecondition},
		{"paused", ran(port(ports.CodeInvalidInput).WithReason(ports.ReasonPaused)), exitPrecondition},
		{"provenance", ran(port(ports.CodeCheckpointProvenance)), exitPrecondition},
		{"unknown", ran(port(ports.CodeOutcomeUnknown)), exitUnknown},
		{"a code of a newer server", ran(port("SOMETHING_NEW")), exitFailed},
		{"no permission", ran(&fs.PathError{Op: "open", Path: "f", Err: os.ErrPermission}), exitDenied},
		{"no permission for what a configuration names", ran(ports.Errorf(ports.CodeInvalidConfig, "config", "the path cannot be used: %w", &fs.PathError{Op: "lstat", Path: "f", Err: os.ErrPermission})), exitDenied},
		{"no file", ran(&fs.PathError{Op: "open", Path: "f", Err: os.ErrNotExist}), exitNotFound},
		{"explicit", ran(exitf(exitPartly, "half")), exitPartly},
		{"quiet", ran(&quietError{exitNotFound}), exitNotFound},
		{"interrupted", ran(context.Canceled), exitFailed},
	} {
		assert.Equal(t, test.want, exitCode(test.err), test.name)
	}
}

func TestDescribeKeepsMessageAndCode(t *testing.T) {
	t.Parallel()
	stale := ports.Errorf(ports.CodeQueueOperationFailed, "queue.ack", "the receipt is stale").WithReason(ports.ReasonStaleReceipt)
	assert.Equal(t, "the receipt is stale (QUEUE_OPERATION_FAILED/stale_receipt)", describe(&ranError{stale}))
	assert.Equal(t, "ack: 1 of 2: the receipt is stale (QUEUE_OPERATION_FAILED/stale_receipt)", describe(fmt.Errorf("ack: 1 of 2: %w", stale)))
	unknown := ports.Errorf(ports.CodeOutcomeUnknown, "queue.send", "it may be stored: %w", context.Canceled)
	assert.Equal(t, "it may be stored: context canceled (OUTCOME_UNKNOWN)", describe(unknown))
	assert.Equal(t, "stopped before it was done", describe(fmt.Errorf("receive: %w", context.Canceled)))
	assert.Equal(t, "plain", describe(errors.New("plain")))
}

func TestOneLineHidesNothingAndObeysNothing(t *testing.T) {
	t.Parallel()
	assert.Equal(t, `a; b\tc\x1b[31m`, oneLine("a\nb\tc\x1b[31m\n"))
	assert.Equal(t, `odd \xff path`, oneLine("odd \xff path"))
	assert.Equal(t, "Zürich � ok", oneLine("Zürich � ok"))
}

// The page that operators read has the codes of the table that runs.
func TestErrorsPageHasTheExitCodes(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.FromSlash("../../docs/errors.md"))
	require.NoError(t, err)
	rows := map[string][]string{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 4 || cells[0] != "" {
			continue
		}
		for i := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "`")
		}
		rows[cells[1]] = cells
	}
	for _, info := range ports.Codes {
		require.Len(t, rows[string(info.Code)], 7, "the row of %s", info.Code)
		assert.Equal(t, strconv.Itoa(exitCodes[info.Code]), rows[string(info.Code)][4], "exit code of %s", info.Code)
	}
	for reason, code := range exitReasons {
		require.NotEmpty(t, rows[string(reason)], "the row of %s", reason)
		assert.Equal(t, strconv.Itoa(code), rows[string(reason)][4], "exit code of %s", reason)
	}
	for code := exitDone; code <= exitPartly; code++ {
		assert.NotEmpty(t, rows[strconv.Itoa(code)], "the row of exit code %d", code)
	}
}
