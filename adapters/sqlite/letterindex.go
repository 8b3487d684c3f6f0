package sqlite

import (
	"cmp"
	"maps"
	"slices"

	"github.com/stowage-go/stowage/types"
)

// blockBits makes blocks of 1024 positions. The statement countBlocks has the same number.
const blockBits = 10

// letterIndex counts the dead letters of each pipeline by blocks of positions, so that the place of the
// nth is found without a walk over all before it: n is counted off in blocks, and the rest of the way
// is at most one block. It has what the transaction that is open sees, so only what runs under the
// writer may touch it.
type letterIndex map[types.PipelineID]*letterBlocks

// letterBlocks are those that hold a letter, in order.
type letterBlocks struct {
	list  []letterBlock
	total int64
}

type letterBlock struct {
	key   int64 // the positions from key<<blockBits on
	count int64
}

func blockOf(position int64) int64 { return position >> blockBits }

// change adds n letters to a block, or takes -n away.
func (x letterIndex) change(pipeline types.PipelineID, key, n int64) {
	blocks := x[pipeline]
	if blocks == nil {
		blocks = new(letterBlocks)
		x[pipeline] = blocks
	}
	blocks.total += n
	i, found := blocks.search(key)
	switch {
	case !found:
		blocks.list = slices.Insert(blocks.list, i, letterBlock{key, n})
	case blocks.list[i].count+n == 0:
		blocks.list = slices.Delete(blocks.list, i, i+1)
	default:
		blocks.list[i].count += n
	}
	if len(blocks.list) == 0 {
		delete(x, pipeline)
	}
}

func (b *letterBlocks) search(key int64) (int, bool) {
	return slices.BinarySearchFunc(b.list, key, func(b letterBlock, key int64) int { return cmp.Compare(b.key, key) })
}

// before counts the letters in the blocks before one.
func (x letterIndex) before(pipeline types.PipelineID, key int64) (n int64) {
	for _, block := range x.upTo(pipeline, key-1) {
		n += block.count
	}
	return n
}

// upTo returns a copy of the blocks up to and including one.
func (x letterIndex) upTo(pipeline types.PipelineID, key int64) []letterBlock {
	blocks := x[pipeline]
	if blocks == nil {
		return nil
	}
	i, found := blocks.search(key)
	if found {
		i++
	}
	return slices.Clone(blocks.list[:i])
}

// seek finds the letter that comes skip letters after the first passed ones: the block that has it, and
// how many letters of that block come before it.
func (x letterIndex) seek(pipeline types.PipelineID, passed, skip int64) (key, rest int64, found bool) {
	blocks := x[pipeline]
	if blocks == nil || skip >= blocks.total-passed {
		return 0, 0, false
	}
	rest = passed + skip
	for _, block := range blocks.list {
		if rest < block.count {
			return block.key, rest, true
		}
		rest -= block.count
	}
	return 0, 0, false
}

func (x letterIndex) counts() []types.LetterCount {
	counts := make([]types.LetterCount, 0, len(x))
	for _, pipeline := range slices.Sorted(maps.Keys(x)) {
		counts = append(counts, types.LetterCount{Pipeline: pipeline, Count: x[pipeline].total})
	}
	return counts
}
