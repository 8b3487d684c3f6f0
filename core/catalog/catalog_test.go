package catalog_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/catalog"
	"github.com/stowage-go/stowage/ports"
)

func noKv(context.Context, ports.Env, ports.ModuleConfig) (ports.KvStore, error) { return nil, nil }

func noQueue(context.Context, ports.Env, ports.ModuleConfig) (ports.QueueStore, error) {
	return nil, nil
}

func noOwner(context.Context, ports.Env, map[string]ports.ModuleConfig) (ports.QueueOwnerStore, error) {
	return nil, nil
}

func TestRegisterRefusesIncompleteModules(t *testing.T) {
	t.Parallel()
	without := func(change func(*ports.ModuleInfo)) ports.ModuleInfo {
		full := info("m")
		change(&full)
		return full
	}
	for name, bad := range map[string]ports.ModuleInfo{
		"no name":         without(func(i *ports.ModuleInfo) { i.Name = "" }),
		"an odd name":     without(func(i *ports.ModuleInfo) { i.Name = "a b" }),
		"no description":  without(func(i *ports.ModuleInfo) { i.Description = "" }),
		"two description": without(func(i *ports.ModuleInfo) { i.Description = "a\nb" }),
		"no example":      without(func(i *ports.ModuleInfo) { i.Example = "" }),
	} {
		c := catalog.New()
		require.ErrorIs(t, c.RegisterKv(ports.KvModule{ModuleInfo: bad, Open: noKv}), ports.ErrInvalidInput, name)
		require.ErrorIs(t, c.RegisterQueue(ports.QueueModule{ModuleInfo: bad, Open: noQueue}), ports.ErrInvalidInput, name)
		assert.Empty(t, c.Modules(), name)
	}
	c := catalog.New()
	require.ErrorIs(t, c.RegisterKv(ports.KvModule{ModuleInfo: info("m")}), ports.ErrInvalidInput)
	require.ErrorIs(t, c.RegisterQueue(ports.QueueModule{ModuleInfo: info("m")}), ports.ErrInvalidInput, "neither of Open and OpenOwner")
	require.ErrorIs(t, c.RegisterQueue(ports.QueueModule{ModuleInfo: info("m"), Open: noQueue, OpenOwner: noOwner}), ports.ErrInvalidInput, "both")
}

func TestRegisterRefusesDuplicates(t *testing.T) {
	t.Parallel()
	c := catalog.New()
	require.NoError(t, c.RegisterKv(ports.KvModule{ModuleInfo: info("memory"), Open: noKv}))
	require.NoError(t, c.RegisterQueue(ports.QueueModule{ModuleInfo: info("memory"), Open: noQueue}), "one name may serve both kinds")
	other := info("memory")
	other.Description = "another one"
	require.ErrorIs(t, c.RegisterKv(ports.KvModule{ModuleInfo: other, Open: noKv}), ports.ErrAlreadyExists)
	require.ErrorIs(t, c.RegisterQueue(ports.QueueModule{ModuleInfo: other, OpenOwner: noOwner}), ports.ErrAlreadyExists)
	assert.Equal(t, []catalog.Module{{catalog.KindKv, info("memory")}, {catalog.KindQueue, info("memory")}}, c.Modules(), "the first stays")
}

func TestModulesAreListedByKindAndName(t *testing.T) {
	t.Parallel()
	var names []string
	for _, m := range newCatalog(t, &recorder{}).Modules() {
		names = append(names, string(m.Kind)+" "+m.Name)
	}
	assert.Equal(t, []string{"kv files", "kv plain", "queue hotel", "queue house", "queue single"}, names)
}
