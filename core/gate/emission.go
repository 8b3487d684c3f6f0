package gate

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/stowage-go/stowage/types"
)

// maxEmissions is how many groups that emitted are remembered.
const maxEmissions = 1_500

// place is where an event stands in the stream.
type place struct {
	cursor types.Cursor
	index  uint64
}

func (p place) after(q place) bool {
	order := p.cursor.Compare(q.cursor)
	return order > 0 || order == 0 && p.index > q.index
}

// emission is the last emission of a group.
type emission struct {
	hash uint64 // of the key
	now  int64  // the time of the group then
	at   place
	// The neighbours, by the order of the emissions.
	older, newer *emission
}

// hashKey is the first 64 bits of the SHA-256 of a key.
func hashKey(key string) uint64 {
	sum := sha256.Sum256([]byte(key))
	return binary.BigEndian.Uint64(sum[:8])
}

// emissions are those of the groups, the oldest first.
type emissions struct {
	oldest, newest *emission
	count          int
}

// push adds the newest.
func (l *emissions) push(e *emission) {
	e.older, e.newer = l.newest, nil
	if l.newest == nil {
		l.oldest = e
	} else {
		l.newest.newer = e
	}
	l.newest = e
	l.count++
}

func (l *emissions) remove(e *emission) {
	if e.older == nil {
		l.oldest = e.newer
	} else {
		e.older.newer = e.newer
	}
	if e.newer == nil {
		l.newest = e.older
	} else {
		e.newer.older = e.older
	}
	e.older, e.newer = nil, nil
	l.count--
}

// The aux of a gate: these 12 bytes, the number of emissions as 4 bytes, and the emissions, the oldest
// first, of five numbers each: hash, time, primary, secondary and index. All numbers are big-endian.
const (
	auxMagic  = "stowgate\x00\x00\x00\x01" // the last four bytes are the version
	auxHeader = len(auxMagic) + 4
	auxEntry  = 5 * 8
)

// encode gives the aux.
func (l *emissions) encode() []byte {
	aux := make([]byte, 0, auxHeader+l.count*auxEntry)
	aux = append(aux, auxMagic...)
	aux = binary.BigEndian.AppendUint32(aux, uint32(l.count))
	for e := l.oldest; e != nil; e = e.newer {
		aux = binary.BigEndian.AppendUint64(aux, e.hash)
		aux = binary.BigEndian.AppendUint64(aux, uint64(e.now))
		aux = binary.BigEndian.AppendUint64(aux, e.at.cursor.Primary)
		aux = binary.BigEndian.AppendUint64(aux, e.at.cursor.Secondary)
		aux = binary.BigEndian.AppendUint64(aux, e.at.index)
	}
	return aux
}

// decode gives the emissions of an aux, the oldest first.
func decode(aux []byte) ([]*emission, error) {
	if aux == nil {
		return nil, nil
	}
	version := len(auxMagic) - 4
	switch {
	case len(aux) < auxHeader || string(aux[:version]) != auxMagic[:version]:
		return nil, errors.New("it is not the state of a gate")
	case string(aux[version:len(auxMagic)]) != auxMagic[version:]:
		return nil, fmt.Errorf("it has the version %d, and this build knows 1", binary.BigEndian.Uint32(aux[version:]))
	}
	count := int64(binary.BigEndian.Uint32(aux[len(auxMagic):]))
	if body := int64(len(aux) - auxHeader); count > maxEmissions || body != count*int64(auxEntry) {
		return nil, fmt.Errorf("it has %d bytes for %d emissions", body, count)
	}
	list := make([]*emission, count)
	known := make(map[uint64]bool, count)
	for i := range list {
		var n [5]uint64
		for k := range n {
			n[k] = binary.BigEndian.Uint64(aux[auxHeader+i*auxEntry+k*8:])
		}
		e := &emission{hash: n[0], now: int64(n[1]), at: place{types.Cursor{Primary: n[2], Secondary: n[3]}, n[4]}}
		switch {
		case max(n[2], n[3], n[4]) > math.MaxInt64:
			return nil, fmt.Errorf("the place of emission %d is out of range", i)
		case known[e.hash]:
			return nil, fmt.Errorf("emission %d is of a group that had one already", i)
		case i > 0 && !e.at.after(list[i-1].at):
			return nil, fmt.Errorf("emission %d is not after the one before it", i)
		}
		known[e.hash] = true
		list[i] = e
	}
	return list, nil
}
