// Package sourcetest is the contract of ports.Source, ports.Unordered and ports.Acceptor as a suite of
// tests. A source, in this repository or elsewhere, passes a [Harness] to [Run] and has proved that it
// keeps the contract.
//
// The suite looks at a source from the outside only, through the port. What a harness claims is tested;
// what it does not claim is asserted to be absent.
package sourcetest
