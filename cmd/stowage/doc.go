// Command stowage runs the daemon that owns local queues and a storage, and works with queues,
// key-value stores and the storage from a shell.
//
// Package main is where everything meets: components.go is the only file that names adapters, every
// other file speaks ports. The command promises stable exit codes (exit.go), JSON output with the
// field names of the HTTP protocol, and that no token stands in an argument or, unless it is asked
// for, in any output.
package main
