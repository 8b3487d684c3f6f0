package gate

// Bound lets a test reach the bounds of a gate with few events.
func Bound(g *Gate, hits, emissions int) { g.mostHits, g.mostEmissions = hits, emissions }

// Known is how many matches a gate would know if they were given again.
func Known(g *Gate) int { return len(g.counted) }

// Sizes are how many groups, hits and emissions a gate holds.
func Sizes(g *Gate) (groups, hits, emissions int) {
	return len(g.groups), g.journal.len(), g.emitted.count
}
