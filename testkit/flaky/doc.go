// Package flaky wraps any ports.KvStore, ports.QueueStore, ports.Storage, ports.Source or ports.Sink and
// makes it fail: the nth call, some calls by chance, before or after the effect, late, by operation; or
// holds a call until it is released; or halts everything, as if the process stopped in the middle of a
// call. What fails is decided by a seed and by counts, so that a test that fails once fails again.
//
// A wrapper keeps to the port: it never changes what goes in or comes out of a call that succeeds.
package flaky
