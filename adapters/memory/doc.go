// Package memory keeps key-value pairs and queues in plain collections of the process.
//
// It is the simplest implementation that keeps the contracts: one mutex a store, and every call is
// lock, look, unlock. It promises all of ports.Kv and ports.Queue but two things. Nothing outlives the
// store: a restart loses every entry and message. And every call of a queue, and every scan, looks at
// everything that is stored, so that it serves tests and small stores, not large ones.
package memory
