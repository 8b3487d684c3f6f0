// Package catalog registers modules, composes the stores that a configuration names, and opens the
// sources and sinks of its pipelines.
//
// Registration is explicit: a program makes a [Catalog] and registers each module that it ships, its
// own or a third party's. [Catalog.Compose] validates a whole configuration before anything is opened
// or created: unknown modules, the keys of each module, one path for two stores, and the expressions and
// gates of pipelines. The [Composition] opens a store when it is first asked for, checks the health of
// those that are open, and closes them in the reverse order of their start. It opens a source or sink
// anew whenever it is asked, also for a pipeline that stands in no file; those belong to whoever asked.
//
// It knows no adapter, leaves the form of the file to package config, and runs no pipeline.
package catalog
