package adminhttp

// MaxPage bounds a page in bytes.
const MaxPage = maxPage

// SetPageBytes bounds the pages of a handler otherwise, before it serves anything.
func (h *Handler) SetPageBytes(n int) { h.pageBytes = n }

// Routes is what a handler serves, for the test that holds it against the document.
func (h *Handler) Routes() map[string][]string {
	all := map[string][]string{}
	for pattern, methods := range h.routes() {
		for method := range methods {
			all[pattern] = append(all[pattern], method)
		}
	}
	return all
}
