package queuehttp_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/adapters/queuehttp"
	"github.com/stowage-go/stowage/ports"
)

func TestParseBinding(t *testing.T) {
	t.Parallel()
	want := queuehttp.Binding{Endpoint: "https://example.test:8443/v1/queues/orders", Token: "canary"}
	text, err := ports.EncodeJSON(ports.NewWireBinding(want))
	require.NoError(t, err)
	got, err := queuehttp.ParseBinding(text)
	require.NoError(t, err)
	assert.Equal(t, want.Endpoint, got.Endpoint)
	assert.Equal(t, want.Token, got.Token)
	assert.NotContains(t, fmt.Sprintf("%v %+v %#v", got, got, got), "canary")
}

func TestBindingsThatCannotBeUsedAreRefusedBeforeAnythingIsOpened(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		``:                                     "malformed",
		`{`:                                    "malformed",
		`[]`:                                   "list",
		`{}`:                                   "no service",
		`{"service":"local-kv","dataDir":"x"}`: "local-kv",
		`{"service":"local-queue-grpc"}`:       "local-queue-grpc",
		`{"service":"LOCAL-QUEUE-HTTP"}`:       "LOCAL-QUEUE-HTTP",
		`{"service":"local-queue-http"}`:       "endpoint",
		`{"service":"local-queue-http","endpoint":"http://h/q","token":"canary","extra":1}`:        "extra",
		`{"service":"local-queue-http","Endpoint":"http://h/q","token":"canary"}`:                  "Endpoint",
		`{"service":"local-queue-http","endpoint":"http://h/q","token":"canary","token":"canary"}`: "twice",
		`{"service":"local-queue-http","endpoint":"http://h/q"}`:                                   "no token",
		`{"service":"local-queue-http","endpoint":"http://h/q","token":"canary\n"}`:                "token",
		`{"service":"local-queue-http","endpoint":"http://h/q","token":"canary"} x`:                "malformed",
		`{"service":"local-queue-http","endpoint":"ftp://h/q","token":"canary"}`:                   "http",
		`{"service":"local-queue-http","endpoint":"/v1/queues/q","token":"canary"}`:                "http",
		`{"service":"local-queue-http","endpoint":"http:///q","token":"canary"}`:                   "host",
		`{"service":"local-queue-http","endpoint":"http://u:canary@h/q","token":"canary"}`:         "password",
		`{"service":"local-queue-http","endpoint":"http://h/q?token=canary","token":"canary"}`:     "query",
		`{"service":"local-queue-http","endpoint":"http://h/q#canary","token":"canary"}`:           "fragment",
		`{"service":"local-queue-http","endpoint":"http://h canary","token":"canary"}`:             "URL",
	} {
		_, err := queuehttp.ParseBinding([]byte(text))
		require.ErrorIs(t, err, ports.ErrBindingSetupFailed, text)
		assert.NotContains(t, err.Error(), "canary", text)
		if says != "list" {
			assert.Contains(t, err.Error(), says, text)
		}
	}
}

func TestALegacyBindingSaysWhatToDo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := queuehttp.ParseBinding(fmt.Appendf(nil, `{"service":"local-queue","queuePath":%q}`, dir+"/queue"))
	require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
	require.ErrorIs(t, err, ports.ErrUnsupported)
	assert.Contains(t, err.Error(), "stowage queue migrate")
	assert.NoDirExists(t, dir+"/queue")
}

func TestClientsOfBindingsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	_, err := queuehttp.NewClient(queuehttp.Binding{Endpoint: "x", Token: "t"}, queuehttp.Options{})
	require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
	_, err = queuehttp.NewClient(queuehttp.Binding{Endpoint: "http://h/q", Token: strings.Repeat("t", 1025)}, queuehttp.Options{})
	require.ErrorIs(t, err, ports.ErrBindingSetupFailed)
	_, err = queuehttp.NewClient(queuehttp.Binding{Endpoint: "http://h/q", Token: "t"}, queuehttp.Options{Timeout: -1})
	require.ErrorIs(t, err, ports.ErrInvalidConfig)

	want := errors.New("no token today")
	client := newClient(t, queuehttp.Binding{Endpoint: "http://127.0.0.1:1/q"}, queuehttp.Options{Token: func() (string, error) { return "", want }})
	require.ErrorIs(t, client.HealthCheck(t.Context()), want)
}
