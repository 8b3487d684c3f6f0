package localkv

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

func TestBindingOpensItsDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	for _, binding := range []map[string]any{
		{"service": "local-kv", "dataDir": dir},
		{"service": "local-kv", "dataDir": dir, "keyPrefix": "ignored:"},
		{"service": "local-kv", "dataDir": dir, "keyPrefix": nil},
	} {
		text, err := json.Marshal(binding)
		require.NoError(t, err)
		store, err := OpenBinding(t.Context(), text, Options{Log: testLog(t)})
		require.NoError(t, err)
		put(t, store, "key", "here", types.PutOptions{})
		require.NoError(t, store.Close())
		require.FileExists(t, filepath.Join(dir, databaseName))
	}
	require.Equal(t, [][]any{{"key"}}, rawRows(t, dir, "SELECT key FROM kv"))
}

func TestBindingIsStrict(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	quoted, err := json.Marshal(dir)
	require.NoError(t, err)
	for name, test := range map[string]struct{ text, says string }{
		"other service":       {`{"service":"local-queue","queuePath":` + string(quoted) + `}`, `"local-queue"`},
		"service in capitals": {`{"service":"LOCAL-KV","dataDir":` + string(quoted) + `}`, "LOCAL-KV"},
		"no service":          {`{"dataDir":` + string(quoted) + `}`, "local-kv"},
		"service no string":   {`{"service":1,"dataDir":` + string(quoted) + `}`, "service"},
		"no directory":        {`{"service":"local-kv"}`, "dataDir"},
		"empty directory":     {`{"service":"local-kv","dataDir":""}`, "dataDir"},
		"null directory":      {`{"service":"local-kv","dataDir":null}`, "null"},
		"unknown member":      {`{"service":"local-kv","dataDir":` + string(quoted) + `,"mode":"x"}`, "mode"},
		"case variant":        {`{"service":"local-kv","DataDir":` + string(quoted) + `}`, "DataDir"},
		"duplicate member":    {`{"service":"local-kv","dataDir":` + string(quoted) + `,"dataDir":` + string(quoted) + `}`, "twice"},
		"trailing content":    {`{"service":"local-kv","dataDir":` + string(quoted) + `} {}`, "follows"},
		"no object":           {`["local-kv"]`, ""},
		"no JSON":             {`local-kv`, ""},
		"empty":               {``, ""},
	} {
		_, err := OpenBinding(t.Context(), []byte(test.text), Options{Log: testLog(t)})
		require.ErrorIs(t, err, ports.ErrBindingSetupFailed, name)
		require.ErrorContains(t, err, test.says, name)
		require.NoDirExists(t, dir, name)
	}
	_, err = OpenBinding(t.Context(), []byte(`{"service":"local-kv","dataDir":`+string(quoted)+`}`), Options{Dir: dir})
	require.ErrorIs(t, err, ports.ErrInvalidConfig)
	require.NoDirExists(t, dir)
}
