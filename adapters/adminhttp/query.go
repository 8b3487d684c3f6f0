package adminhttp

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stowage-go/stowage/ports"
	"github.com/stowage-go/stowage/types"
)

// checkQuery refuses parameters that the route does not take, that come twice, or that are empty: a
// filter that was misspelt would otherwise pick everything.
func (r route) checkQuery(request *http.Request) error {
	const op = "admin.request"
	if r.access == anyone {
		return nil
	}
	values, err := url.ParseQuery(request.URL.RawQuery)
	if err != nil {
		return ports.Errorf(ports.CodeInvalidInput, op, "the query cannot be read: write it as name=value, joined by &, with other characters as %%XX")
	}
	for name, given := range values {
		switch {
		case !slices.Contains(r.query, name) && len(r.query) == 0:
			return ports.Errorf(ports.CodeInvalidInput, op, "the query has %d parameters: the path takes none", len(values))
		case !slices.Contains(r.query, name):
			return ports.Errorf(ports.CodeInvalidInput, op, "the query has a parameter that the path does not take: allowed are %s", strings.Join(r.query, ", "))
		case len(given) > 1:
			return ports.Errorf(ports.CodeInvalidInput, op, "the query has the parameter %q %d times: give it once", name, len(given))
		case given[0] == "":
			return ports.Errorf(ports.CodeInvalidInput, op, "the parameter %q of the query is empty: give it a value, or leave it out", name)
		case !utf8.ValidString(given[0]):
			return ports.Errorf(ports.CodeInvalidInput, op, "the parameter %q of the query is not valid UTF-8", name)
		}
	}
	return nil
}

// number takes a whole number out of a query that was found good; one that is not there is otherwise.
func number(op string, query url.Values, name string, otherwise int) (int, error) {
	text := query.Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || strconv.Itoa(n) != text {
		return 0, ports.Errorf(ports.CodeInvalidInput, op, "the parameter %q of the query is no whole number of 0 or above", name)
	}
	return n, nil
}

// checkFilter checks a filter of dead letters.
func checkFilter(op string, filter types.LetterFilter) error {
	if filter.Monitor != "" {
		if err := ports.CheckID(op, "monitor", filter.Monitor); err != nil {
			return err
		}
	}
	if filter.Sink != "" {
		if err := ports.CheckID(op, "sink", filter.Sink); err != nil {
			return err
		}
	}
	if len(filter.Reason) > ports.MaxReasonBytes || !utf8.ValidString(filter.Reason) {
		return ports.Errorf(ports.CodeInvalidInput, op, "the part of the reason has %d bytes: give at most %d of valid UTF-8", len(filter.Reason), ports.MaxReasonBytes)
	}
	return nil
}
