package control

// SetPageSize makes actions on many letters turn the page more often.
func (h *Handle) SetPageSize(n int) { h.pageSize = n }
