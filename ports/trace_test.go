package ports_test

import (
	"strings"
	"testing"

	"github.com/stowage-go/stowage/ports"
)

func TestIsTraceparent(t *testing.T) {
	t.Parallel()
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for text, want := range map[string]bool{
		good:                  true,
		"01" + good[2:]:       true,
		good[:len(good)-1]:    false,
		good + "0":            false,
		good + "-x":           false,
		"ff" + good[2:]:       false,
		strings.ToUpper(good): false,
		"":                    false,
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": false,
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": false,
		"00-0af7651916cd43dd8448eb211c80319-cb7ad6b7169203331-01": false,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g": false,
		"00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01": false,
	} {
		if got := ports.IsTraceparent(text); got != want {
			t.Errorf("IsTraceparent(%q) = %v, want %v", text, got, want)
		}
	}
}
