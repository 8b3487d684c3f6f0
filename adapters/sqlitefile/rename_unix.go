//go:build unix && !linux

package sqlitefile

// renameNew moves a file to a name that must be free.
func renameNew(from, to string) error { return linkNew(from, to) }
