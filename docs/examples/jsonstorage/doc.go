// Package jsonstorage is a storage in one JSON file, for a pipeline or two whose state a person wants to
// read with a pager and change with an editor while nothing runs.
//
// It is an adapter from outside Stowage's repository: it implements a port, registers with a catalog
// under a name, and proves itself with the contract suite. See docs/adapter-guide.md.
//
// A success survives the end of the process; it may be lost with the power, since nothing is synced.
// Every change reads and writes the whole state, and every list sorts what it looks at, so keep it
// small. One process has a file open at a time.
package jsonstorage
