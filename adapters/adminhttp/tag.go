package adminhttp

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/stowage-go/stowage/ports"
)

// formatTag is the entity tag of a version, which is a strong one.
func formatTag(version uint64) string { return `"` + strconv.FormatUint(version, 10) + `"` }

// parseTag reads the one form of the tag of a version.
func parseTag(tag string) (uint64, bool) {
	version, err := strconv.ParseUint(strings.Trim(tag, `"`), 10, 64)
	return version, err == nil && version >= 1 && version <= ports.MaxStoredInteger && formatTag(version) == tag
}

// versionMatch is an If-Match.
type versionMatch struct {
	given    bool
	any      bool
	versions []uint64
}

func parseMatch(op string, header http.Header) (versionMatch, error) {
	tags, err := parseTags(op, header, "If-Match")
	if err != nil {
		return versionMatch{}, err
	}
	match := versionMatch{given: tags.given, any: tags.any}
	for _, tag := range tags.list {
		version, ok := parseTag(tag)
		if !ok {
			return versionMatch{}, ports.Errorf(ports.CodeInvalidInput, op, `If-Match names what is no version of a resource: give the ETag that came with it, as in "3"; a weak one does not do`)
		}
		match.versions = append(match.versions, version)
	}
	return match, nil
}

// entityTags are the tags of an If-Match or If-None-Match, as they stand there.
type entityTags struct {
	given bool
	any   bool
	list  []string
}

// matches compares in the weak way, as If-None-Match wants it.
func (t entityTags) matches(tag string) bool {
	return t.any || slices.ContainsFunc(t.list, func(known string) bool { return strings.TrimPrefix(known, "W/") == tag })
}

// parseTags reads a list of entity tags, or *, which stands alone.
func parseTags(op string, header http.Header, name string) (entityTags, error) {
	values := header.Values(name)
	if len(values) == 0 {
		return entityTags{}, nil
	}
	malformed := ports.Errorf(ports.CodeInvalidInput, op, `%s is neither * nor a list of tags such as "3"`, name)
	text := strings.Trim(strings.Join(values, ","), " \t")
	if text == "*" {
		return entityTags{given: true, any: true}, nil
	}
	tags := entityTags{given: true}
	for {
		text = strings.TrimLeft(text, " \t,")
		if text == "" {
			break
		}
		weak := ""
		if strings.HasPrefix(text, "W/") {
			weak, text = "W/", text[2:]
		}
		if !strings.HasPrefix(text, `"`) {
			return entityTags{}, malformed
		}
		opaque, rest, closed := strings.Cut(text[1:], `"`)
		if !closed || strings.ContainsFunc(opaque, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
			return entityTags{}, malformed
		}
		tags.list = append(tags.list, weak+`"`+opaque+`"`)
		text = strings.TrimLeft(rest, " \t")
		if text != "" && text[0] != ',' {
			return entityTags{}, malformed
		}
	}
	if len(tags.list) == 0 {
		return entityTags{}, malformed
	}
	return tags, nil
}
