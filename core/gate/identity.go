package gate

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/stowage-go/stowage/types"
)

// identity tells a match that is given again at a newer place, as a message of a queue is whose lease has
// ended: its event bears the same ID, and has the same time and the same group.
type identity struct {
	group uint64
	ts    int64
	id    uint64
}

// The index of a hit whose event has an ID holds a hash of that ID beside the index of the event, so that
// the journal tells after a restart which events were counted: the first 48 bits of its SHA-256 in the lower
// 48 bits, the index in the next 14, and above them a bit that says so. Where the event's index needs more
// bits, or there is no ID, the index of the hit is that of the event.
const (
	idBits    = 48
	idMask    = 1<<idBits - 1
	indexBits = 14
	marked    = 1 << (idBits + indexBits)
)

// hashID is what the gate knows of the ID of an event, 0 for nothing.
func hashID(e types.Event) uint64 {
	if e.ID == "" || e.Index >= 1<<indexBits {
		return 0
	}
	sum := sha256.Sum256([]byte(e.ID))
	return max(binary.BigEndian.Uint64(sum[:8])>>(64-idBits), 1)
}

// pack gives the index of a hit.
func pack(index, id uint64) uint64 {
	if id == 0 {
		return index
	}
	return marked | index<<idBits | id
}

// unpack gives what pack was given.
func unpack(packed uint64) (index, id uint64) {
	if packed&marked == 0 {
		return packed, 0
	}
	return packed &^ marked >> idBits, packed & idMask
}
