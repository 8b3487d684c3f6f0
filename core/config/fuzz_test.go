package config_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stowage-go/stowage/core/config"
)

// FuzzParse looks for a text that makes the parser or the line index fail in another way than by a
// fault with a line of the file.
func FuzzParse(f *testing.F) {
	f.Add(full)
	f.Add(config.Example(config.ExampleModules{Storage: "a", Kv: "b", Queue: "c", Source: "d", Sink: "e"}))
	f.Add("[[kv.a.config.list]]\na=1\n[[kv.a.config.list.in]]\nx=[[1],[{b=2}]]\n")
	f.Add("kv = { a = { module = 'm', config.names = ['x'] } }\n")
	f.Add(wholePipeline)
	f.Add("[[pipeline]]\nid='p'\nsource={module='m',deep=[{a=1}]}\nmonitor=[{id='a',sinks=['s']}]\nsink=[{id='s',\nmodule='m',retry={min='1s'}}]\n")
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
		for _, p := range c.Pipelines {
			if err := p.Check(); err != nil {
				t.Fatalf("%q was parsed, and is refused when it is checked: %v", text, err)
			}
			for _, sink := range p.Sinks {
				var into settings
				checkFault(t, text, sink.Config.Decode(&into))
			}
		}
	})
}

// FuzzParsePipeline looks for a JSON text that fails in another way than by a fault without a line, or
// that is taken although encoding/json or the rules refuse it.
func FuzzParsePipeline(f *testing.F) {
	f.Add(wholeJSON)
	f.Add(`{}`)
	f.Add(`{"sink":[{"id":"s","module":"m","big":123456789012345678901234567890}]}`)
	f.Add(`{"sink":[{"id":"s","module":"m","list":[{"a":null}]}],"sink":[]}`)
	f.Add(`{"source":{"module":"m"},"monitor":[{"id":"a","sinks":["s"],"gate":{"threshold":2,"window":"1h"}}],"sink":[{"id":"s","module":"m"}]} x`)
	f.Add(`{"fields":{"[0]":"any"},"\u0066ields":{}}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := config.ParsePipeline("p", []byte(text))
		if err != nil {
			fault, ok := asFault(err)
			if !ok || fault.At.File != "" || fault.At.Line != 0 {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if !json.Valid([]byte(text)) {
			t.Fatalf("%q was taken", text)
		}
		if err := p.Check(); err != nil {
			t.Fatalf("%q was parsed, and is refused when it is checked: %v", text, err)
		}
		for _, sink := range p.Sinks {
			var into settings
			if err := sink.Config.Decode(&into); err != nil {
				if fault, ok := asFault(err); !ok || !strings.HasPrefix(fault.At.Path, "sink[") {
					t.Fatalf("%q: %v", text, err)
				}
			}
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
