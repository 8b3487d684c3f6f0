// Package types holds the values that Stowage's ports move: entries, payloads, messages, counts.
//
// It depends on the standard library only and holds no behaviour beyond construction and
// formatting. What a value may contain is decided in one place, package ports.
package types
