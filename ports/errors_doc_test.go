package ports

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestErrorsDocumentMatchesTheTables holds docs/errors.md against the tables of this package. Inside
// a released module the document is not there.
func TestErrorsDocumentMatchesTheTables(t *testing.T) {
	t.Parallel()
	const path = "../docs/errors.md"
	if _, err := os.Stat("../docs"); err != nil {
		t.Skip("docs/ is not part of the module; the test runs in the repository")
	}
	document, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var codes, wantCodes, reasonRows, wantReasons, exits []string
	for _, info := range Codes {
		wantCodes = append(wantCodes, fmt.Sprintf("%s %d %s %s", info.Code, info.Status, info.Class, info.Meaning))
	}
	for reason, info := range reasons {
		wantReasons = append(wantReasons, fmt.Sprintf("%s %d %s", reason, info.status, info.class))
	}
	for line := range strings.Lines(string(document)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "`")
		}
		if len(cells) == 2 && strings.HasPrefix(line, "| ") && len(cells[0]) == 1 {
			exits = append(exits, cells[0])
		}
		if len(cells) != 5 || !strings.HasPrefix(line, "| `") {
			continue
		}
		if cells[0] == strings.ToUpper(cells[0]) {
			codes = append(codes, strings.Join([]string{cells[0], cells[1], cells[2], cells[4]}, " "))
		} else {
			reasonRows = append(reasonRows, strings.Join(cells[:3], " "))
		}
		if exit := cells[3]; len(exit) != 1 || exit < "1" || exit > "7" {
			t.Errorf("%s: %q is not the exit code of a failure", cells[0], exit)
		}
	}
	if !slices.Equal(codes, wantCodes) {
		t.Errorf("the codes of %s are\n%s\nwant\n%s", path, strings.Join(codes, "\n"), strings.Join(wantCodes, "\n"))
	}
	slices.Sort(reasonRows)
	slices.Sort(wantReasons)
	if !slices.Equal(reasonRows, wantReasons) {
		t.Errorf("the reasons of %s are\n%s\nwant\n%s", path, strings.Join(reasonRows, "\n"), strings.Join(wantReasons, "\n"))
	}
	if want := []string{"0", "1", "2", "3", "4", "5", "6", "7", "8"}; !slices.Equal(exits, want) {
		t.Errorf("the exit codes of %s are %v, want %v", path, exits, want)
	}
}
