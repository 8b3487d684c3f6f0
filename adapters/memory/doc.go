// Package memory keeps storages, key-value pairs and queues in plain collections of the process.
//
// It is the simplest implementation that keeps the contracts: one mutex a store, and every call is
// lock, look, unlock. It promises all of ports.Storage, ports.Kv and ports.Queue but two things.
// Nothing outlives the store: a restart loses every record, checkpoint, dead letter, pause, entry and
// message (R232). And every call of a queue, every scan and every list of resources looks at everything
// that is stored, so that they serve tests and small stores, not large ones. Dead letters are found by
// position and by id, however many there are.
package memory
