// Package ndjson reads and writes files of one JSON value a line: a source that follows a file, a sink
// that appends to one, and a sink that prints.
//
// # The source
//
// A [Source] gives each line of a file once, in order. The primary part of a cursor is the byte offset
// at which the line starts; where a file has taken the place of another, what it counts goes on from
// the end of the one before, so that cursors grow for ever. A small file in the state directory knows
// which file stands where in that count. Lines end with \n or \r\n; blank ones are passed over, and so is
// a byte order mark at the beginning of a file. A line that is cut off at the end of the file waits for
// its rest. What is no JSON value, or is above 1 MiB, is an event with Err and never a stop. The content
// of a line stands in no message.
//
// Files that are rotated by renaming are read to their end, also when it happened while nothing ran:
// the source finds them beside the path, as path.N, path.* or path-*, by inode and by what they begin
// with, and reads those that lie in between in their order. A file that was copied and truncated is
// found as its copy. What cannot be read any more (deleted, compressed, truncated without a copy) is
// reported by an event with Err that says how much it is, as far as that is known. A copy that has taken
// the place of the file, as editors and rsync make it, is read on where the file was left, if it begins
// alike and has the same before that place.
//
// What it cannot see: lines that are written to a renamed file later than one poll interval after a
// new file has taken its place; lines written between the copy and the truncation of a copying
// rotation; a truncated file that begins with the same 1 KiB as before and is no shorter; a file that
// came and was deleted between two polls. A file that is shorter than what was read of it counts as
// truncated, and is read from its beginning.
//
// # The sinks
//
// A [Sink] appends each event as one line to a file and syncs it by policy. The file belongs to one
// sink of one process. A [Printer] writes lines to a stream, which is the standard output in a
// configuration.
//
// Which events are picked, and what is tried again, is the affair of the pipeline.
package ndjson
