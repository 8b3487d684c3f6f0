// Package sinktest is the contract of ports.Sink and ports.BatchSink as a suite of tests. A sink, in this
// repository or elsewhere, passes a [Harness] to [Run] and has proved that it keeps the contract.
//
// The suite looks at a sink from the outside only: at what its calls come to, and at what its receiver
// got. What a harness claims is tested; what it does not claim is asserted to be absent.
package sinktest
