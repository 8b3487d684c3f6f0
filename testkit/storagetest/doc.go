// Package storagetest is the contract of ports.Storage and ports.Archiver as a suite of tests. An
// adapter, in this repository or elsewhere, passes a [Harness] to [Run] and has proved that it keeps
// the contract.
//
// The suite looks at a store from the outside only, through the port. What a harness claims is
// tested; what it does not claim is asserted to be absent. The random histories honour the
// environment variables of pgregory.net/rapid: RAPID_CHECKS=10000 go test -count=1 makes a thorough
// run.
package storagetest
