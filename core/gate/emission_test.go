package gate

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

func listOf(all ...*emission) *emissions {
	l := &emissions{}
	for _, e := range all {
		l.push(e)
	}
	return l
}

func bytesOf(t *testing.T, digits string) []byte {
	t.Helper()
	text, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
	require.NoError(t, err)
	return text
}

// golden is what files hold: it never changes.
const golden = `
	73746f7767617465 00000001 00000002
	79adb2a2fce5c6ba 0000016150db3a62 0000000000000101 0000000000000002 0000000000000003
	e3b0c44298fc1c14 ffffffffffffffff 7fffffffffffffff 7fffffffffffffff 7fffffffffffffff`

func TestAuxHasItsGoldenBytes(t *testing.T) {
	t.Parallel()
	l := listOf(
		&emission{hash: hashKey("us"), now: 1517480000098, at: place{types.Cursor{Primary: 257, Secondary: 2}, 3}},
		&emission{hash: hashKey(""), now: -1, at: place{types.Cursor{Primary: math.MaxInt64, Secondary: math.MaxInt64}, math.MaxInt64}},
	)
	assert.Equal(t, hex.EncodeToString(bytesOf(t, golden)), hex.EncodeToString(l.encode()))

	list, err := decode(bytesOf(t, golden))
	require.NoError(t, err)
	require.Len(t, list, 2)
	assert.Equal(t, emission{hash: hashKey("us"), now: 1517480000098, at: place{types.Cursor{Primary: 257, Secondary: 2}, 3}}, *list[0])
	assert.Equal(t, int64(-1), list[1].now)

	none, err := decode(nil)
	require.NoError(t, err)
	assert.Empty(t, none, "a gate that never emitted has no aux")
}

func TestTheLargestAuxIsStored(t *testing.T) {
	t.Parallel()
	l := &emissions{}
	for i := range uint64(maxEmissions) {
		l.push(&emission{hash: i, at: place{index: i}})
	}
	aux := l.encode()
	assert.LessOrEqual(t, len(aux), ports.MaxAuxBytes)
	list, err := decode(aux)
	require.NoError(t, err)
	assert.Len(t, list, maxEmissions)
}

func TestAuxThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	good := bytesOf(t, golden)
	change := func(at int, to ...byte) []byte {
		aux := append([]byte(nil), good...)
		copy(aux[at:], to)
		return aux
	}
	for name, tc := range map[string]struct {
		aux  []byte
		want string
	}{
		"empty":          {[]byte{}, "it is not the state of a gate"},
		"short":          {good[:15], "it is not the state of a gate"},
		"something else": {change(0, 'x'), "it is not the state of a gate"},
		"newer":          {change(11, 2), "it has the version 2, and this build knows 1"},
		"cut off":        {good[:len(good)-1], "it has 79 bytes for 2 emissions"},
		"too long":       {append(change(0), 0), "it has 81 bytes for 2 emissions"},
		"a huge count":   {change(12, 0xff, 0xff, 0xff, 0xff), "it has 80 bytes for 4294967295 emissions"},
		"out of range":   {change(16+16, 0x80), "the place of emission 0 is out of range"},
		"out of order":   {change(16+16, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), "emission 1 is not after the one before it"},
		"a group twice":  {change(16+40, good[16:24]...), "emission 1 is of a group that had one already"},
	} {
		_, err := decode(tc.aux)
		assert.EqualError(t, err, tc.want, name)
	}
}

func FuzzAux(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte("garbage"))
	f.Add(listOf().encode())
	f.Add(listOf(&emission{hash: 1, now: 2, at: place{types.Cursor{Primary: 3}, 4}}, &emission{hash: 2, now: -2, at: place{types.Cursor{Primary: 3}, 5}}).encode())
	f.Fuzz(func(t *testing.T, aux []byte) {
		list, err := decode(aux)
		if err != nil || aux == nil {
			return
		}
		require.Equal(t, aux, listOf(list...).encode(), "what is decoded is encoded as it was")
		g, err := New("fuzz", Config{Threshold: 2, Window: 1e6, Cooldown: 1e9})
		require.NoError(t, err)
		upTo := types.Cursor{Primary: math.MaxInt64, Secondary: math.MaxInt64}
		require.NoError(t, g.Restore(nil, types.GateMeta{Aux: aux}, &upTo, func([]byte) string { return "" }))
		g.Offer(types.Event{TS: 7}, "")
		g.Offer(types.Event{TS: 7}, "")
	})
}
