package memory

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/testkit/fixture"
	"github.com/stowage-go/stowage/types"
)

// The cost of the calls that an operator makes does not grow with the number of letters; a deletion in
// the midst moves 8 bytes for each letter behind it.
func BenchmarkLetters(b *testing.B) {
	for _, n := range []int{200, 200_000} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			store := openStorage(b)
			for i := range n {
				require.NoError(b, store.RecordDeadLetter(b.Context(), "p", fixture.DeadLetter(i)))
			}
			for _, page := range []struct {
				name  string
				query types.LetterQuery
			}{
				{"page/front", types.LetterQuery{Take: 100}},
				{"page/after", types.LetterQuery{After: int64(n / 2), Take: 100}},
				{"page/end", types.LetterQuery{Skip: n - 100, Take: 100}},
			} {
				b.Run(page.name, func(b *testing.B) {
					for b.Loop() {
						page, err := store.ListDeadLetters(b.Context(), "p", page.query)
						if err != nil || len(page) != 100 {
							b.Fatal(len(page), err)
						}
					}
				})
			}
			middle := fixture.DeadLetter(n / 2)
			b.Run("get", func(b *testing.B) {
				for b.Loop() {
					if _, ok, err := store.GetDeadLetter(b.Context(), "p", middle.MatchID); err != nil || !ok {
						b.Fatal(ok, err)
					}
				}
			})
			b.Run("replace", func(b *testing.B) {
				for b.Loop() {
					if ok, err := store.UpdateDeadLetter(b.Context(), "p", middle); err != nil || !ok {
						b.Fatal(ok, err)
					}
				}
			})
			// One more letter, and one less, so that their number stays: the oldest as a replay in order
			// takes it, the one in the midst, the newest.
			next := n
			for _, place := range []struct {
				name string
				skip int
			}{{"front", 0}, {"middle", n / 2}, {"end", n}} {
				b.Run("record+delete/"+place.name, func(b *testing.B) {
					for b.Loop() {
						if err := store.RecordDeadLetter(b.Context(), "p", fixture.DeadLetter(next)); err != nil {
							b.Fatal(err)
						}
						next++
						page, err := store.ListDeadLetters(b.Context(), "p", types.LetterQuery{Skip: place.skip, Take: 1})
						if err != nil || len(page) != 1 {
							b.Fatal(len(page), err)
						}
						if ok, err := store.DeleteDeadLetter(b.Context(), "p", page[0].Letter.MatchID); err != nil || !ok {
							b.Fatal(ok, err)
						}
					}
				})
			}
		})
	}
}
