// Package config reads stowage.toml and tells exactly what is wrong with it.
//
// It promises strictness: an unknown or misplaced key, a wrong type, a bad name and a repeated key or
// table each give INVALID_CONFIG with file, line, key and what is allowed there. The keys of a module
// are handed on as a [ports.ModuleConfig] that is as strict. Values never stand in a message, since a
// key of a module may hold a secret; those of listen, state_dir and durations do.
//
// It reads nothing but the file that it is given, and opens and creates nothing. Which modules there
// are, and whether two stores share a path, is left to package catalog.
package config
