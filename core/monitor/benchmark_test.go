package monitor_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stowage-go/stowage/core/monitor"
)

// BenchmarkEarthquake reads a line of the quickstart and holds monitors against it.
func BenchmarkEarthquake(b *testing.B) {
	for name, when := range map[string][]string{
		"order":   {`mag >= 4.5`},
		"guarded": {`(mag ?? 0) >= 4.5`},
		"in":      {`"mag" in event and net in ["us", "ci"]`},
		"matches": {`place matches "CA$"`},
		"event":   {`event.mag >= 4.5`},
		"five":    {`mag >= 4.5`, `net == "us" and depth_km > 100`, `type != "earthquake"`, `place contains "Alaska"`, `mag >= 2 and net in ["nc", "ci"]`},
	} {
		b.Run(name, func(b *testing.B) {
			var rules []*monitor.Rule
			var exprs []monitor.Expression
			for _, w := range when {
				r := rule(b, w, nil)
				rules, exprs = append(rules, r), append(exprs, r)
			}
			reader := monitor.NewReader(exprs...)
			lines := quakes(b)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				env, err := reader.Read(lines[i%len(lines)])
				if err != nil {
					b.Fatal(err)
				}
				for _, r := range rules {
					if _, err := r.Match(env); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func BenchmarkMissingMember(b *testing.B) {
	r := rule(b, `mag >= 4.5`, nil)
	env := read(b, `{}`, r)
	for b.Loop() {
		if _, err := r.Match(env); err == nil {
			b.Fatal("it is an error")
		}
	}
}

func BenchmarkLoop(b *testing.B) {
	r := rule(b, `any(a, # > 3)`, nil)
	env := read(b, `{"a":[`+strings.TrimSuffix(strings.Repeat("1,", 1000), ",")+`]}`, r)
	for b.Loop() {
		if _, err := r.Match(env); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	for i := 0; b.Loop(); i++ {
		_, err := monitor.Compile(fmt.Sprintf(`mag >= %d and net in ["us", "ci"]`, i%9), quakeFields())
		require.NoError(b, err)
	}
}
