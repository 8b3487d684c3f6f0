// Package model holds the simplest correct key-value store, queue, queue owner, storage, source and
// sink: lists that are walked from end to end under one lock.
//
// The suites of kvtest, queuetest and storagetest compare other stores with them, and core's and
// other tests use them as fakes. They are slow on purpose, keep nothing beyond their own life, and
// share no code with an adapter beyond the input rules of package ports.
package model
