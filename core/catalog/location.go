package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// location is a path with everything resolved that can make two spellings one place.
type location struct {
	given    string
	resolved string
	info     os.FileInfo // nil while nothing is there
}

// maxLinks ends a circle of links.
const maxLinks = 255

// locate resolves an absolute path as opening it would: links, also those that lead to what is not
// there yet, and "..", which leaves the place that a link led to. It creates nothing.
func locate(given string) (location, error) {
	root := filepath.VolumeName(given) + string(filepath.Separator)
	resolved, links := root, 0
	rest := strings.TrimPrefix(given, root)
	for rest != "" {
		var name string
		name, rest, _ = strings.Cut(rest, string(filepath.Separator))
		switch name {
		case "", ".":
			continue
		case "..":
			resolved = filepath.Dir(resolved)
			continue
		}
		next := filepath.Join(resolved, name)
		info, err := os.Lstat(next)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return location{}, err
		}
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			resolved = next
			continue
		}
		if links++; links > maxLinks {
			return location{}, fmt.Errorf("it has more than %d symbolic links", maxLinks)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return location{}, err
		}
		if filepath.IsAbs(target) {
			resolved = root
		}
		rest = target + string(filepath.Separator) + rest
	}
	at := location{given: given, resolved: resolved}
	info, err := os.Stat(resolved)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return location{}, err
	}
	if err == nil {
		at.info = info
	}
	return at, nil
}

// same reports whether both lead to one place: by name, or by a hard link or a mount.
func (l location) same(other location) bool {
	return l.resolved == other.resolved || l.info != nil && other.info != nil && os.SameFile(l.info, other.info)
}

// meets reports whether both lead to one place, or one lies inside the other.
func (l location) meets(other location) bool {
	return l.same(other) || l.inside(other) || other.inside(l)
}

func (l location) inside(other location) bool {
	return strings.HasPrefix(l.resolved, strings.TrimSuffix(other.resolved, string(filepath.Separator))+string(filepath.Separator))
}

// beside reports whether it is a file that a database keeps beside another one.
func (l location) beside(database location) bool {
	for _, suffix := range [...]string{"-wal", "-shm", "-journal", ".lock"} {
		if l.resolved == database.resolved+suffix {
			return true
		}
	}
	return false
}

// String gives the path, and where it leads if that is elsewhere.
func (l location) String() string {
	if filepath.Clean(l.given) == l.resolved {
		return fmt.Sprintf("%q", l.resolved)
	}
	return fmt.Sprintf("%q (which is %q)", l.given, l.resolved)
}
