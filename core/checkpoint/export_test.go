package checkpoint

// Spans is the length of the tracker's list, which nothing but a test of its bound asks for.
func Spans(t *Tracker) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for s := t.first; s != nil; s = s.next {
		n++
	}
	return n
}

// Closed reports whether Stop or Abort has been called.
func (w *Writer) Closed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// Wait returns when the goroutine has ended.
func (w *Writer) Wait() { <-w.ended }
