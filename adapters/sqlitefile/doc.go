// Package sqlitefile is the engine room of every adapter that keeps its state in a SQLite file: one
// file, one writer with group commit, a few readers, ownership, checkpoints, backup.
//
// It promises that an operation which returned success is on the disk (with [DurabilityFull], also
// after a power cut), that one which returned an error left nothing behind, that a file of another
// kind is refused with every byte in its place, and that a file which is taken away or replaced
// under it never takes a write for a success. What the tables are and what the statements mean it
// leaves to the adapters: they bring a [Schema] and functions that run inside a transaction.
//
// The same store can lie in memory alone ([InMemory]): it keeps every promise about transactions and
// none about the disk.
//
// It is the only package that names the driver.
package sqlitefile
