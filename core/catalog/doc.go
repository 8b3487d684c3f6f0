// Package catalog registers modules and composes the stores and sinks that a configuration names.
//
// Registration is explicit: a program makes a [Catalog] and registers each module that it ships, its
// own or a third party's. [Catalog.Compose] validates a whole configuration before anything is opened
// or created: unknown modules, the keys of each module, and one path for two stores. The
// [Composition] opens a store when it is first asked for, checks the health of those that are open,
// and closes them in the reverse order of their start.
//
// It knows no adapter, and leaves the form of the file to package config.
package catalog
