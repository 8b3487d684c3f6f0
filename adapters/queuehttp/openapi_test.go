package queuehttp_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// The API is described in one document, which the module adminhttp serves. Here its part about
// queues is held against the golden files, which are recordings of the client and the handler.
func TestTheDocumentDescribesWhatGoesOverTheWire(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "adminhttp", "openapi.yaml"))
	require.NoError(t, err, "this test wants the whole repository")
	var document map[string]any
	require.NoError(t, yaml.Unmarshal(text, &document))
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("openapi.yaml", document))
	validate := func(schema, text string) error {
		compiled, err := compiler.Compile("openapi.yaml#/components/schemas/" + schema)
		require.NoError(t, err)
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		require.NoError(t, err, text)
		return compiled.Validate(value)
	}
	part := func(keys ...string) map[string]any {
		node := document
		for _, key := range keys {
			node, _ = node[key].(map[string]any)
			require.NotNil(t, node, "%v", keys)
		}
		return node
	}

	answers := map[string]string{
		"send": "Done", "sendBatch": "SendResults", "receive": "Received", "ack": "Done", "ackBatch": "AckResults",
		"nack": "Done", "renew": "Done", "purge": "Done", "stats": "Stats", "peek": "Peeked",
	}
	mapping := part("components", "schemas", "Operation", "discriminator", "mapping")
	assert.Len(t, mapping, len(answers))
	assert.Len(t, operations, len(answers))
	for _, op := range operations {
		assert.Contains(t, mapping, op.name)
	}
	described := part("paths", "/v1/queues/{id}", "post", "responses")

	files, err := filepath.Glob(filepath.Join("testdata", "wire", "*.http"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	seen := map[string]bool{}
	for _, file := range files {
		recorded, err := os.ReadFile(file)
		require.NoError(t, err)
		parts := strings.Split(string(recorded), "\n\n") // head, body, head, body
		require.Len(t, parts, 4, file)
		request, status, answer := parts[1], parts[2][:3], parts[3]
		name := strings.TrimSuffix(filepath.Base(file), ".http")
		if strings.HasPrefix(name, "error_") {
			assert.NoError(t, validate("Error", answer), file)
			if !strings.HasPrefix(status, "50") && status != "404" { // 404 is another path; the rest is "default"
				assert.Contains(t, described, status, file)
			}
			continue
		}
		assert.Equal(t, "200", status, file)
		assert.NoError(t, validate("Operation", request), file)
		_, rest, _ := strings.Cut(request, `"operation":"`)
		operation, _, _ := strings.Cut(rest, `"`)
		assert.NoError(t, validate(answers[operation], answer), file)
		assert.NoError(t, validate("Answer", answer), file)
		seen[operation] = true
	}
	assert.Len(t, seen, len(answers), "every operation has a recording")

	for _, wrong := range []string{
		`{"operation":"x"}`, `{"operation":"stats","x":1}`, `{"operation":"send"}`, `{"operation":"receive","maxMessages":11}`,
		`{"operation":"ackBatch","receiptHandles":[]}`, `{"operation":"send","message":{"type":"text","data":1}}`,
	} {
		assert.Error(t, validate("Operation", wrong), "%s: the handler refuses it, so must the document", wrong)
	}
	for name, example := range part("paths", "/v1/queues/{id}", "post", "requestBody", "content", "application/json", "examples") {
		compiled, err := compiler.Compile("openapi.yaml#/components/schemas/Operation")
		require.NoError(t, err)
		assert.NoError(t, compiled.Validate(example.(map[string]any)["value"]), name)
	}
}
