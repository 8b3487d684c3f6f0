// Package localkv is a [ports.Kv] in one SQLite file, in the format localkv.v2 that
// docs/formats.md gives.
//
// It promises what the port does, durably: a put that returned has been synced to the disk (unless
// [Options].Durability says otherwise). By default any number of processes on one machine may have
// the store open at once, and conditional writes of all of them have one winner; reads of live
// entries never wait for a writer. Files of the original implementation, which runs on the Turso
// engine, open as they are and may go back to it, as long as only one of the two engines has them
// open.
//
// Transactions, locks, checkpoints, ownership and backup are those of package sqlitefile; this
// package holds the tables and the statements.
package localkv
