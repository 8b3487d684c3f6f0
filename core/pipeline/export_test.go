package pipeline

// Places is how many pipelines an engine has in memory.
func Places(e *Engine) int { return len(e.sorted()) }

// Lanes is how many lanes an engine has, and how many of them have a goroutine.
func Lanes(e *Engine) (all, busy int) {
	for _, u := range e.all() {
		r := u.current()
		if r == nil {
			continue
		}
		for _, l := range r.lanes {
			l.mu.Lock()
			all++
			if l.ended != nil {
				busy++
			}
			l.mu.Unlock()
		}
	}
	return all, busy
}
