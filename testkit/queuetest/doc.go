// Package queuetest is the contract of ports.Queue as a suite of tests. An adapter, in this
// repository or elsewhere, passes a [Harness] to [Run] and has proved that it keeps the contract.
//
// The suite looks at a queue from the outside only, through the port. What a harness claims is
// tested; what it does not claim is asserted to be absent. The random histories honour the
// environment variables of pgregory.net/rapid: RAPID_CHECKS=10000 go test -count=1 makes a thorough
// run.
//
// Long polls are tested with a clock that stands still until the suite moves it, in place of sleeps.
// The suite takes a receive for waiting once one more timer of the clock is running than before. So
// a receive that waits must hold at least one timer, and must not read the clock between starting
// that timer and the next time that something wakes it.
package queuetest
