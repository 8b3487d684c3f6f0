// Package sqlite is a [ports.Storage] in one SQLite file, in the format that docs/formats.md gives: it
// keeps resources, checkpoints, dead letters, pauses, the delivery journal, and the hits and metas of
// gates.
//
// It promises what the port does, durably: a call that returned success has been synced to the disk
// (unless [Options].Durability says otherwise), and a crash at any moment leaves each call, and each
// step that Apply stores, whole or absent. One process has the file open at a time. Files of all
// earlier schema versions are brought up when they are opened, in one transaction; a file of another
// version is left as it was. The path ":memory:" stands for a store that is gone when it is closed.
//
// Transactions, locks, checkpoints, ownership and backup are those of package sqlitefile; this package
// holds the tables, the statements, and an index of the dead letters in memory that makes any page of
// them as cheap as the first.
package sqlite
