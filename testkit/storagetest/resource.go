package storagetest

import (
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// wantConflict asserts a version conflict with both numbers.
func (f *fix) wantConflict(err error, op string, expected, actual uint64) {
	f.Helper()
	require.ErrorIs(f, err, ports.ErrVersionConflict)
	var conflict *ports.VersionConflictError
	require.ErrorAs(f, err, &conflict)
	require.Equal(f, []uint64{expected, actual}, []uint64{conflict.Expected, conflict.Actual}, "the versions expected and found")
	require.Equal(f, op, conflict.Op)
	require.False(f, ports.IsTransient(err), "a conflict stays one: want a permanent error")
}

// wantCode asserts a permanent error of the code and operation.
func (f *fix) wantCode(err error, code *ports.Error, op string) {
	f.Helper()
	require.ErrorIs(f, err, code)
	var e *ports.Error
	require.ErrorAs(f, err, &e)
	require.Equal(f, op, e.Op, "an error names its operation")
	require.False(f, ports.IsTransient(err), "want a permanent error")
}

// faithful are JSON values that a store may be tempted to write in another way.
var faithful = []string{
	`null`, `true`, `false`, `0`, `-0`, `0.0`, `1.50`, `1e2`, `1E+02`, `1e400`, `9007199254740993`, `-9223372036854775809`,
	`18446744073709551616`, `123456789012345678901234567890.12345678901234567890`, `""`, `"é"`, `"\u00e9"`, `"\u00E9"`, `"\/"`, `"/"`,
	`"<&>"`, `"\u003c"`, `"\ud83d\ude00"`, `"😀"`, "\"\u2028\u2029\"", `"\u0000"`, `"\u007f"`, "\"\x7f\"", `"\b\f\n\r\t\"\\"`, `"\uFEFF"`,
	`{}`, `[]`, `{"b":1,"a":2}`, `{"":0}`, `{"a":{"a":{"a":[]}}}`, `{"a":1,"A":2}`, `{"é":1,"e\u0301":2}`, `"' OR 1=1; --"`, `"$.match_id"`,
}

var resourceCases = []testCase{
	{name: "what is missing is no error", run: func(f *fix) {
		f.wantNoResource("k", "a")
		page := f.list("k", "", 0)
		require.Empty(f, page.Resources)
		require.Empty(f, page.Next)
		kinds, err := f.s.ResourceKinds(f.ctx)
		require.NoError(f, err)
		require.Empty(f, kinds)
	}},
	{name: "a record is created at version 1, and every update adds 1", run: func(f *fix) {
		version := f.put("k", "a", `"first"`, 0)
		require.Equal(f, uint64(1), version)
		f.wantResource("k", "a", 1, `"first"`)
		for v := uint64(1); v < 5; v++ {
			f.put("k", "a", `"same"`, v)
			f.wantResource("k", "a", v+1, `"same"`)
		}
	}},
	{name: "creating a record that is there is refused and leaves it alone", run: func(f *fix) {
		f.put("k", "a", `1`, 0)
		f.put("k", "a", `2`, 1)
		_, err := f.s.PutResource(f.ctx, "k", "a", []byte(`3`), 0)
		f.wantCode(err, ports.ErrAlreadyExists, "storage.putResource")
		f.wantResource("k", "a", 2, `2`)
	}},
	{name: "an update of another version is a conflict with both numbers", run: func(f *fix) {
		f.put("k", "a", `1`, 0)
		f.put("k", "a", `2`, 1)
		f.put("k", "a", `3`, 2)
		for _, expected := range []uint64{1, 2, 4, 1 << 40} {
			version, err := f.s.PutResource(f.ctx, "k", "a", []byte(`"lost"`), expected)
			f.wantConflict(err, "storage.putResource", expected, 3)
			require.Zero(f, version)
		}
		f.wantResource("k", "a", 3, `3`)
	}},
	{name: "an update of a missing record is refused and creates nothing", run: func(f *fix) {
		f.put("k", "b", `1`, 0)
		_, err := f.s.PutResource(f.ctx, "k", "a", []byte(`1`), 1)
		f.wantCode(err, ports.ErrNotFound, "storage.putResource")
		_, err = f.s.PutResource(f.ctx, "other", "b", []byte(`1`), 1)
		f.wantCode(err, ports.ErrNotFound, "storage.putResource")
		f.wantNoResource("k", "a")
		f.wantNoResource("other", "b")
	}},
	{name: "a deletion wants the version, and has the errors of an update", run: func(f *fix) {
		f.put("k", "a", `1`, 0)
		f.put("k", "a", `2`, 1)
		f.put("k", "b", `1`, 0)
		for _, expected := range []uint64{1, 3} {
			f.wantConflict(f.s.DeleteResource(f.ctx, "k", "a", expected), "storage.deleteResource", expected, 2)
		}
		f.wantResource("k", "a", 2, `2`)
		require.NoError(f, f.s.DeleteResource(f.ctx, "k", "a", 2))
		f.wantNoResource("k", "a")
		f.wantResource("k", "b", 1, `1`)
		f.wantCode(f.s.DeleteResource(f.ctx, "k", "a", 2), ports.ErrNotFound, "storage.deleteResource")
	}},
	{name: "a record that is created again starts at version 1 again", run: func(f *fix) {
		f.put("k", "a", `1`, 0)
		f.put("k", "a", `2`, 1)
		require.NoError(f, f.s.DeleteResource(f.ctx, "k", "a", 2))
		f.put("k", "a", `3`, 0)
		f.wantResource("k", "a", 1, `3`)
		_, err := f.s.PutResource(f.ctx, "k", "a", []byte(`4`), 2)
		f.wantConflict(err, "storage.putResource", 2, 1)
	}},
	{name: "kind and id together are the key", run: func(f *fix) {
		f.put("k", "a", `1`, 0)
		f.put("l", "a", `2`, 0)
		f.put("a", "k", `3`, 0)
		f.put("l", "a", `4`, 1)
		f.wantResource("k", "a", 1, `1`)
		f.wantResource("l", "a", 2, `4`)
		f.wantResource("a", "k", 1, `3`)
		require.NoError(f, f.s.DeleteResource(f.ctx, "k", "a", 1))
		f.wantResource("l", "a", 2, `4`)
		// Joined without a separator, these would be the same.
		f.put("k:a", "b", `5`, 0)
		f.put("k", "a:b", `6`, 0)
		f.wantResource("k:a", "b", 1, `5`)
		f.wantResource("k", "a:b", 1, `6`)
	}},
	{name: "a value comes back byte for byte", run: func(f *fix) {
		values := slices.Clone(faithful)
		for _, v := range faithful {
			values = append(values, " \t\r\n"+v+"\n ", "{ \"v\" :\n"+v+" }")
		}
		batch := make([]types.Resource, len(values))
		for i, v := range values {
			batch[i] = types.Resource{Kind: "batch", ID: numbered("v", i), Value: []byte(v)}
		}
		require.NoError(f, f.s.PutResources(f.ctx, batch))
		f.put("k", "a", "0", 0)
		for i, v := range values {
			f.put("k", "a", v, uint64(i+1))
			f.wantResource("k", "a", uint64(i+2), v)
			f.wantResource("batch", numbered("v", i), 1, v)
		}
		for i, r := range f.list("batch", "", 0).Resources {
			require.Equal(f, types.Resource{Kind: "batch", ID: numbered("v", i), Version: 1, Value: []byte(values[i])}, r)
		}
	}},
	{name: "a batch is created in one", run: func(f *fix) {
		require.NoError(f, f.s.PutResources(f.ctx, []types.Resource{
			{Kind: "k", ID: "b", Value: []byte(` 1 `)}, {Kind: "l", ID: "b", Value: []byte(`2`)}, {Kind: "k", ID: "a", Version: 1, Value: []byte(`3`)},
		}))
		f.wantResource("k", "b", 1, ` 1 `)
		f.wantResource("l", "b", 1, `2`)
		f.wantResource("k", "a", 1, `3`)
	}},
	{name: "a batch with one that is there stores nothing, wherever it stands", run: func(f *fix) {
		f.put("k", "there", `"old"`, 0)
		f.put("k", "there", `"old"`, 1)
		before := f.dump()
		for _, place := range []int{0, 2, 4} {
			batch := []types.Resource{
				{Kind: "k", ID: "a", Value: []byte("1")}, {Kind: "k", ID: "b", Value: []byte("1")}, {Kind: "k", ID: "z", Value: []byte("1")}, {Kind: "l", ID: "there", Value: []byte("1")},
			}
			batch = slices.Insert(batch, place, types.Resource{Kind: "k", ID: "there", Value: []byte(`"new"`)})
			f.wantCode(f.s.PutResources(f.ctx, batch), ports.ErrAlreadyExists, "storage.putResources")
			f.wantState(before, "a batch with one that is there")
		}
	}},
	{name: "a batch in which one comes twice stores nothing", run: func(f *fix) {
		f.put("k", "there", `"old"`, 0)
		before := f.dump()
		for _, batch := range [][]types.Resource{
			{{Kind: "k", ID: "a", Value: []byte("1")}, {Kind: "k", ID: "b", Value: []byte("1")}, {Kind: "k", ID: "a", Value: []byte("2")}},
			{{Kind: "k", ID: "a", Value: []byte("1")}, {Kind: "k", ID: "a", Value: []byte("1")}},
			{{Kind: "k", ID: "a", Value: []byte("1")}, {Kind: "k", ID: "there", Value: []byte("1")}, {Kind: "k", ID: "a", Value: []byte("1")}},
		} {
			f.wantCode(f.s.PutResources(f.ctx, batch), ports.ErrAlreadyExists, "storage.putResources")
			f.wantState(before, "a batch in which one comes twice")
		}
		require.NoError(f, f.s.PutResources(f.ctx, []types.Resource{{Kind: "k", ID: "a", Value: []byte("1")}, {Kind: "l", ID: "a", Value: []byte("1")}}), "one id of two kinds")
	}},
	{name: "a batch with a bad record stores nothing", run: func(f *fix) {
		for _, bad := range []types.Resource{{Kind: "k", ID: "c", Value: []byte("{")}, {Kind: "", ID: "c", Value: []byte("1")}, {Kind: "k", ID: "/", Value: []byte("1")}, {Kind: "k", ID: "c", Version: 2, Value: []byte("1")}} {
			err := f.s.PutResources(f.ctx, []types.Resource{{Kind: "k", ID: "a", Value: []byte("1")}, bad, {Kind: "k", ID: "b", Value: []byte("1")}})
			f.wantInvalid(err, "storage.putResources", "%s/%s", bad.Kind, bad.ID)
		}
		require.Empty(f, f.dump())
	}},
	{name: "a list is in the order of the bytes", run: func(f *fix) {
		var ids []string
		for _, c := range idCharacters {
			ids = append(ids, "k"+string(c), "k"+string(c)+"Z", "k"+string(c)+"a")
		}
		ids = append(ids, "k", "K", strings.Repeat("z", 256), "0", "_")
		f.create("k", ids...)
		slices.Sort(ids)
		require.Equal(f, ids, f.listAll("k", 0))
		require.Equal(f, ids, f.listAll("k", 7))
	}},
	{name: "a list holds one kind, with what get gives", run: func(f *fix) {
		f.put("k", "a", ` {"v": 1} `, 0)
		f.put("k", "a", ` {"v": 2} `, 1)
		f.put("k", "b", `null`, 0)
		f.put("k.", "a", `3`, 0)
		f.put("j", "z", `4`, 0)
		require.Equal(f, types.ResourcePage{Resources: []types.Resource{
			{Kind: "k", ID: "a", Version: 2, Value: []byte(` {"v": 2} `)}, {Kind: "k", ID: "b", Version: 1, Value: []byte(`null`)},
		}}, f.list("k", "", 0))
		require.Empty(f, f.listAll("none", 0))
	}},
	{name: "1001 records: the default page holds 1000", run: func(f *fix) {
		var ids []string
		for i := range 1001 {
			ids = append(ids, numbered("r", i))
		}
		f.create("k", ids...)
		for _, limit := range []int{0, 1000} {
			page := f.list("k", "", limit)
			require.Equal(f, ids[:1000], idsOf(page))
			require.Equal(f, ids[999], page.Next)
			rest := f.list("k", page.Next, limit)
			require.Equal(f, ids[1000:], idsOf(rest))
			require.Empty(f, rest.Next)
		}
		require.NoError(f, f.s.DeleteResource(f.ctx, "k", ids[0], 1))
		page := f.list("k", "", 0)
		require.Len(f, page.Resources, 1000)
		require.Empty(f, page.Next, "exactly as many records as the limit: want no next page")
	}},
	{name: "a next page is there only if records remain", run: func(f *fix) {
		f.create("k", "a", "b", "c")
		f.create("l", "d")
		require.Equal(f, "b", f.list("k", "", 2).Next)
		require.Empty(f, f.list("k", "", 3).Next)
		require.Empty(f, f.list("k", "", 4).Next)
		require.Empty(f, f.list("k", "b", 1).Next)
		require.Empty(f, f.list("k", "c", 1).Resources)
		require.Empty(f, f.list("k", strings.Repeat("z", 256), 1).Resources)
	}},
	{name: "a page goes on strictly behind the id, whatever happened before it", run: func(f *fix) {
		f.create("k", "b", "d", "f", "h")
		page := f.list("k", "", 2)
		require.Equal(f, []string{"b", "d"}, idsOf(page))
		require.NoError(f, f.s.DeleteResource(f.ctx, "k", "b", 1)) // nothing may be left out for it
		require.NoError(f, f.s.DeleteResource(f.ctx, "k", "d", 1)) // not even when the last one is gone
		f.create("k", "a", "c", "e", "i")
		f.put("k", "f", "2", 1)
		page = f.list("k", page.Next, 2)
		require.Equal(f, []string{"e", "f"}, idsOf(page))
		page = f.list("k", page.Next, 2)
		require.Equal(f, []string{"h", "i"}, idsOf(page))
		require.Empty(f, page.Next)
		require.Equal(f, []string{"c", "e"}, idsOf(f.list("k", "bb", 2)), "an id that never was is a place as well")
	}},
	{name: "the kinds are those that have a record, in order", run: func(f *fix) {
		kinds := func(want ...types.ResourceKind) {
			f.Helper()
			got, err := f.s.ResourceKinds(f.ctx)
			require.NoError(f, err)
			require.Equal(f, want, got)
		}
		f.create("sink", "a", "b")
		f.create("Pipeline", "a")
		f.create("pipeline", "a")
		f.create("a.", "a")
		f.create("a-", "a")
		kinds("Pipeline", "a-", "a.", "pipeline", "sink")
		require.NoError(f, f.s.DeleteResource(f.ctx, "sink", "a", 1))
		require.NoError(f, f.s.DeleteResource(f.ctx, "a.", "a", 1))
		kinds("Pipeline", "a-", "pipeline", "sink")
	}},
}
