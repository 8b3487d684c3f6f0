package localqueue

import (
	"crypto/rand"

	"github.com/google/uuid"
)

// uuids makes random (version 4) UUIDs, with one read of the system's randomness for many.
type uuids struct {
	pool [64 * 16]byte
	left int
}

// next returns a fresh UUID in its canonical form.
func (u *uuids) next() string {
	if u.left == 0 {
		rand.Read(u.pool[:])
		u.left = len(u.pool)
	}
	id := uuid.UUID(u.pool[u.left-16 : u.left])
	u.left -= 16
	id[6] = id[6]&0x0f | 0x40 // version 4
	id[8] = id[8]&0x3f | 0x80 // variant of RFC 9562
	return id.String()
}
