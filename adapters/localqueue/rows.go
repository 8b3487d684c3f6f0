package localqueue

import "math"

// known is a message that the walk over the index does not deliver, because its place in the index
// says nothing about its place in the queue: it was received, nacked, delayed or written by somebody
// else.
type known struct {
	id, enqueued, visible int64
	place                 uint32 // in due or hidden
	agePlace              uint32 // in aged; hidden ones only
	receipt               bool   // it has one: hidden means in flight, not delayed
	hidden                bool
}

// rows holds the known messages, in about 60 bytes each: a slab of structs, a table from id to slot,
// and heaps of slots. No entry of a heap is ever out of date.
type rows struct {
	slab  [][]known // in chunks, so that growing copies nothing
	used  uint32    // slots ever used
	free  []uint32
	slots table

	due      heap // by (enqueued, id): the order of delivery
	hidden   heap // by (visible, enqueued, id): the order of becoming due
	aged     heap // the hidden ones by (enqueued, id), for the oldest
	inFlight int  // of the hidden ones, those with a receipt
}

const (
	chunk = 1 << 10
	// worthGivingBack is the number of slots above which the memory is freed once none is in use.
	worthGivingBack = 16 * chunk
)

func newRows() *rows {
	r := &rows{}
	r.slots.rows = r
	r.due = heap{rows: r, less: byAge, place: ordinary}
	r.hidden = heap{rows: r, less: byVisible, place: ordinary}
	r.aged = heap{rows: r, less: byAge, place: ofAge}
	return r
}

func byAge(a, b *known) bool {
	return a.enqueued < b.enqueued || a.enqueued == b.enqueued && a.id < b.id
}

func byVisible(a, b *known) bool {
	return a.visible < b.visible || a.visible == b.visible && byAge(a, b)
}

func ordinary(k *known) *uint32 { return &k.place }
func ofAge(k *known) *uint32    { return &k.agePlace }

func (r *rows) at(slot uint32) *known { return &r.slab[slot/chunk][slot%chunk] }

func (r *rows) len() int { return r.slots.used }

// get returns the message with the id, nil if it is not known. The pointer is valid until the next
// change.
func (r *rows) get(id int64) *known {
	slot, ok := r.slots.find(id)
	if !ok {
		return nil
	}
	return r.at(slot)
}

// put adds a message, or changes the one that has its id. It is due if it is visible at now.
func (r *rows) put(k known, now int64) {
	slot, ok := r.slots.find(k.id)
	if ok {
		r.detach(slot)
		*r.at(slot) = k
	} else {
		slot = r.insert(k)
	}
	r.attach(slot, now)
}

func (r *rows) remove(id int64) {
	slot, ok := r.slots.find(id)
	if !ok {
		return
	}
	r.detach(slot)
	r.slots.remove(id)
	r.free = append(r.free, slot)
	if r.len() == 0 && r.used > worthGivingBack {
		*r = *newRows()
		r.slots.rows, r.due.rows, r.hidden.rows, r.aged.rows = r, r, r, r
	}
}

// advance makes the messages due that are visible at now.
func (r *rows) advance(now int64) {
	for r.hidden.len() > 0 {
		slot := r.hidden.slots[0]
		if r.at(slot).visible > now {
			return
		}
		r.detach(slot)
		r.attach(slot, now)
	}
}

// add is put without order; settle brings it about, for many at once.
func (r *rows) add(k known) { r.insert(k) }

func (r *rows) settle(now int64) {
	for slot := range r.used {
		if k := r.at(slot); k.visible > now {
			r.hide(k)
			r.hidden.slots = append(r.hidden.slots, slot)
			r.aged.slots = append(r.aged.slots, slot)
		} else {
			r.due.slots = append(r.due.slots, slot)
		}
	}
	r.due.order()
	r.hidden.order()
	r.aged.order()
}

func (r *rows) hide(k *known) {
	k.hidden = true
	if k.receipt {
		r.inFlight++
	}
}

func (r *rows) attach(slot uint32, now int64) {
	k := r.at(slot)
	if k.visible <= now {
		k.hidden = false
		r.due.push(slot)
		return
	}
	r.hide(k)
	r.hidden.push(slot)
	r.aged.push(slot)
}

func (r *rows) detach(slot uint32) {
	k := r.at(slot)
	if !k.hidden {
		r.due.drop(k.place)
		return
	}
	if k.receipt {
		r.inFlight--
	}
	r.hidden.drop(k.place)
	r.aged.drop(k.agePlace)
}

func (r *rows) insert(k known) (slot uint32) {
	if n := len(r.free); n > 0 {
		slot, r.free = r.free[n-1], r.free[:n-1]
	} else {
		if r.used%chunk == 0 {
			r.slab = append(r.slab, make([]known, chunk))
		}
		slot = r.used
		r.used++
	}
	*r.at(slot) = k
	r.slots.add(slot)
	return slot
}

// oldest is the least enqueued time of all known messages, math.MaxInt64 if there is none.
func (r *rows) oldest() int64 {
	oldest := int64(math.MaxInt64)
	for _, h := range []*heap{&r.due, &r.aged} {
		if top := h.top(); top != nil {
			oldest = min(oldest, top.enqueued)
		}
	}
	return oldest
}

// heap is a binary heap of slots, in which each message knows its place.
type heap struct {
	rows  *rows
	slots []uint32
	less  func(a, b *known) bool
	place func(*known) *uint32
}

func (h *heap) len() int { return len(h.slots) }

// top is the least message, nil if there is none.
func (h *heap) top() *known {
	if len(h.slots) == 0 {
		return nil
	}
	return h.rows.at(h.slots[0])
}

// first returns copies of the n least messages, in order.
func (h *heap) first(n int) []known {
	var list []known
	frontier := []uint32{0} // places whose parents are in the list
	for len(list) < n && len(h.slots) > 0 && len(frontier) > 0 {
		least := 0
		for i := range frontier {
			if h.less(h.at(frontier[i]), h.at(frontier[least])) {
				least = i
			}
		}
		place := frontier[least]
		list = append(list, *h.at(place))
		frontier = append(frontier[:least], frontier[least+1:]...)
		for child := 2*place + 1; child <= 2*place+2 && int(child) < len(h.slots); child++ {
			frontier = append(frontier, child)
		}
	}
	return list
}

func (h *heap) push(slot uint32) {
	h.slots = append(h.slots, slot)
	h.up(uint32(len(h.slots) - 1))
}

func (h *heap) drop(place uint32) {
	last := uint32(len(h.slots) - 1)
	moved := h.slots[last]
	h.slots = h.slots[:last]
	if place == last {
		return
	}
	h.set(place, moved)
	if !h.up(place) {
		h.down(place)
	}
}

// order makes a heap of slots that were appended without order.
func (h *heap) order() {
	for place := range h.slots {
		h.set(uint32(place), h.slots[place])
	}
	for place := len(h.slots)/2 - 1; place >= 0; place-- {
		h.down(uint32(place))
	}
}

func (h *heap) at(place uint32) *known { return h.rows.at(h.slots[place]) }

func (h *heap) set(place, slot uint32) {
	h.slots[place] = slot
	*h.place(h.rows.at(slot)) = place
}

// up moves a slot towards the top and reports whether it moved. It always settles its place.
func (h *heap) up(place uint32) bool {
	slot, from := h.slots[place], place
	for place > 0 {
		parent := (place - 1) / 2
		if !h.less(h.rows.at(slot), h.at(parent)) {
			break
		}
		h.set(place, h.slots[parent])
		place = parent
	}
	h.set(place, slot)
	return place != from
}

func (h *heap) down(place uint32) {
	slot, n := h.slots[place], uint32(len(h.slots))
	for {
		child := 2*place + 1
		if child >= n {
			break
		}
		if right := child + 1; right < n && h.less(h.at(right), h.at(child)) {
			child = right
		}
		if !h.less(h.at(child), h.rows.at(slot)) {
			break
		}
		h.set(place, h.slots[child])
		place = child
	}
	h.set(place, slot)
}

// table finds the slot of an id. It is a hash table of slots alone, a quarter to three quarters full,
// whose keys are in the slab: a map of ids would take as much as all the rest, and longer to fill.
type table struct {
	rows  *rows
	cells []uint32 // slot + 1; 0 is free. Their number is a power of two.
	used  int
}

// home is the cell where the search for an id starts.
func (t *table) home(id int64) int {
	const golden = 0x9E3779B97F4A7C15 // spreads ids that follow each other
	return int(uint64(id) * golden >> 32 & uint64(len(t.cells)-1))
}

func (t *table) find(id int64) (slot uint32, ok bool) {
	if len(t.cells) == 0 {
		return 0, false
	}
	cell := t.cellOf(id)
	return t.cells[cell] - 1, t.cells[cell] != 0
}

// cellOf is the cell that holds the id, or the free one where it belongs.
func (t *table) cellOf(id int64) int {
	cell := t.home(id)
	for t.cells[cell] != 0 && t.rows.at(t.cells[cell]-1).id != id {
		cell = (cell + 1) & (len(t.cells) - 1)
	}
	return cell
}

// add takes a slot whose id is not there yet.
func (t *table) add(slot uint32) {
	if 4*(t.used+1) > 3*len(t.cells) {
		t.grow()
	}
	t.cells[t.cellOf(t.rows.at(slot).id)] = slot + 1
	t.used++
}

func (t *table) grow() {
	old := t.cells
	t.cells = make([]uint32, max(16, 2*len(old)))
	for _, entry := range old {
		if entry != 0 {
			t.cells[t.cellOf(t.rows.at(entry-1).id)] = entry
		}
	}
}

// remove frees the cell of an id that is there, and moves those up that only stood further on because
// it was taken.
func (t *table) remove(id int64) {
	hole := t.cellOf(id)
	mask := len(t.cells) - 1
	for next := (hole + 1) & mask; t.cells[next] != 0; next = (next + 1) & mask {
		home := t.home(t.rows.at(t.cells[next] - 1).id)
		if (next-home)&mask >= (next-hole)&mask {
			t.cells[hole] = t.cells[next]
			hole = next
		}
	}
	t.cells[hole] = 0
	t.used--
}
