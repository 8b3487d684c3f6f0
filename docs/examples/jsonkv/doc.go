// Package jsonkv is a key-value store in one JSON file, for settings that a person wants to read with
// a pager and change with an editor while nothing runs.
//
// It is an adapter from outside Stowage's repository: it implements a port, registers with a catalog
// under a name, and proves itself with the contract suite. See docs/adapter-guide.md.
//
// A success survives the end of the process; it may be lost with the power, since nothing is synced.
// Every change writes the whole file, so keep it small. One process has a file open at a time.
package jsonkv
