// Package config reads stowage.toml and tells exactly what is wrong with it.
//
// It promises strictness: an unknown or misplaced key, a wrong type, a bad name and a repeated key or
// table each give INVALID_CONFIG with file, line, key and what is allowed there. A pipeline that is
// configured by a resource instead, in JSON, follows the same rules, and its faults name the path of the
// key. The keys of a module are handed on as a [ports.ModuleConfig] that is as strict. Values of those
// never stand in a message, since one may hold a secret; ids, numbers and durations of all other keys
// do.
//
// It reads nothing but the file that it is given, and opens and creates nothing. Which modules there
// are, whether two stores share a path, and what an expression says, is left to package catalog.
package config
