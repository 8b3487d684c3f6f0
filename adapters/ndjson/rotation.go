package ndjson

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// archive is a file beside a path that bears its name and a suffix, as a rotation leaves it.
type archive struct {
	name string
	info os.FileInfo
	// family is what archives have in common that follow each other: a short number, or a date of one
	// form. age orders those of a family, the oldest first.
	family string
	age    string
	packed bool
}

// packers are the suffixes that compression adds.
var packers = []string{".gz", ".bz2", ".xz", ".zst", ".lz4", ".Z", ".zip"}

// archives lists what rotations have left of a path. An archive that is there packed and unpacked is
// listed unpacked.
func archives(path string) ([]archive, error) {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(cmp.Or(dir, "."))
	if err != nil {
		return nil, err
	}
	var found []archive
	for _, entry := range entries {
		suffix, ok := strings.CutPrefix(entry.Name(), base)
		if !ok || len(suffix) < 2 || suffix[0] != '.' && suffix[0] != '-' || !entry.Type().IsRegular() {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		a := archive{name: filepath.Join(dir, entry.Name()), info: info}
		for _, packer := range packers {
			if rest, ok := strings.CutSuffix(suffix, packer); ok && rest != "" {
				suffix, a.packed = rest, true
				break
			}
		}
		a.family, a.age = place(suffix)
		found = append(found, a)
	}
	unpacked := make(map[string]bool)
	for _, a := range found {
		if !a.packed {
			unpacked[a.family+a.age] = true
		}
	}
	return slices.DeleteFunc(found, func(a archive) bool { return a.packed && unpacked[a.family+a.age] }), nil
}

// place reads a suffix. ".3" is older than ".2"; "-20260102" is newer than "-20260101".
func place(suffix string) (family, age string) {
	const numbers = 1000
	if n, err := strconv.ParseUint(suffix[1:], 10, 16); err == nil && n < numbers {
		return suffix[:1] + "number", strconv.FormatUint(2*numbers-n, 10)
	}
	shape := strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return '0'
		}
		return r
	}, suffix)
	return shape, suffix
}

// successor is the name of the file that followed the given one in the life of a path, and the packed
// archives that lie between and cannot be read.
func successor(path string, of os.FileInfo) (name string, packed []string, err error) {
	all, err := archives(path)
	if err != nil {
		return "", nil, err
	}
	own := slices.IndexFunc(all, func(a archive) bool { return os.SameFile(a.info, of) })
	if own < 0 {
		return path, nil, nil
	}
	newer := slices.DeleteFunc(slices.Clone(all), func(a archive) bool {
		return a.family != all[own].family || a.age <= all[own].age
	})
	slices.SortFunc(newer, func(a, b archive) int { return cmp.Compare(a.age, b.age) })
	for _, a := range newer {
		if !a.packed {
			return a.name, packed, nil
		}
		packed = append(packed, a.name)
	}
	return path, packed, nil
}

// openSuccessor opens the file that followed the given one. It is nil if none is there now, or names
// change all the time.
func openSuccessor(path string, of os.FileInfo) (*os.File, os.FileInfo, []string, error) {
	const tries = 8
	for range tries {
		name, packed, err := successor(path, of)
		if err != nil {
			return nil, nil, nil, err
		}
		file, info, err := openRegular(name, os.O_RDONLY)
		if errors.Is(err, fs.ErrNotExist) {
			if name == path {
				return nil, nil, nil, nil
			}
			continue
		}
		if err != nil {
			return nil, nil, nil, err
		}
		// A rotation between the list and the open would have put another file in between.
		again, _, err := successor(path, of)
		if err == nil {
			var now os.FileInfo
			if now, err = os.Stat(again); err == nil && os.SameFile(now, info) {
				return file, info, packed, nil
			}
		}
		if err := errors.Join(ignoreMissing(err), file.Close()); err != nil {
			return nil, nil, nil, err
		}
	}
	return nil, nil, nil, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
