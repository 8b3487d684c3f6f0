package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stowage-go/stowage/core/config"
)

// FuzzParse looks for a text that makes the parser or the line index fail in another way than by a
// fault with a line of the file.
func FuzzParse(f *testing.F) {
	f.Add(full)
	f.Add(config.Example(config.ExampleModules{Storage: "a", Kv: "b", Queue: "c", Sink: "d"}))
	f.Add("[[kv.a.config.list]]\na=1\n[[kv.a.config.list.in]]\nx=[[1],[{b=2}]]\n")
	f.Add("kv = { a = { module = 'm', config.names = ['x'] } }\n")
	f.Add("a.b.c = 1\r\n[a.'d e']\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Parse("f", []byte(text))
		checkFault(t, text, err)
		if err != nil {
			return
		}
		for _, store := range c.Kv {
			var into settings
			checkFault(t, text, store.Config.Decode(&into))
		}
	})
}

func checkFault(t *testing.T, text string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	fault, ok := asFault(err)
	if !ok || fault.At.Line < 1 || fault.At.Line > strings.Count(text, "\n")+1 {
		t.Fatalf("%q: %v", text, err)
	}
}

func asFault(err error) (*config.Fault, bool) {
	var fault *config.Fault
	ok := errors.As(err, &fault)
	return fault, ok
}
