// Package flaky wraps any ports.Kv or ports.Queue and makes it fail: the nth call, some calls by
// chance, before or after the effect, late, by operation. What fails is decided by a seed and by
// counts, so that a test that fails once fails again.
//
// A wrapper keeps to the port: it never changes what goes in or comes out of a call that succeeds.
package flaky
