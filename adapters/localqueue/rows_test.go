package localqueue

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The rows behave as a map does, for ids of any kind, also when many share a cell.
func TestRowsFindWhatWasPut(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	r := newRows()
	model := map[int64]known{}
	var ids []int64
	for i := range 3 * worthGivingBack {
		id := int64(i)
		switch random.IntN(3) {
		case 0:
			id = int64(random.Uint64())
		case 1:
			id = int64(i) << 32 // the low half, which picks the cell, is the same
		}
		k := known{id: id, enqueued: int64(random.IntN(100)), visible: int64(random.IntN(100)), receipt: random.IntN(2) == 0}
		r.put(k, 50)
		model[id] = k
		ids = append(ids, id)
		if random.IntN(3) == 0 {
			victim := ids[random.IntN(len(ids))]
			r.remove(victim)
			delete(model, victim)
		}
	}
	require.Equal(t, len(model), r.len())
	for id, want := range model {
		got := r.get(id)
		require.NotNil(t, got, "id %d", id)
		require.Equal(t, [3]int64{want.id, want.enqueued, want.visible}, [3]int64{got.id, got.enqueued, got.visible})
	}
	first := r.due.first(20)
	require.True(t, slices.IsSortedFunc(first, func(a, b known) int {
		if byAge(&a, &b) {
			return -1
		}
		return 1
	}))
	for id := range model {
		r.remove(id)
		require.Nil(t, r.get(id))
	}
	require.Zero(t, r.len())
	require.Zero(t, r.used, "the memory of a burst is given back")
	require.Zero(t, r.due.len()+r.hidden.len()+r.aged.len()+r.inFlight)
}
