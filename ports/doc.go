// Package ports holds the contracts of Stowage: the interfaces that a service programs against and
// an adapter implements, the errors that they share, the rules that every input has to meet, and the
// factories by which a catalog opens an adapter.
//
// The comment of an interface is its specification; the suites of package testkit hold an adapter to
// it. The package depends on package types and the standard library, and on no adapter.
package ports
