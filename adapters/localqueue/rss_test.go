package localqueue

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stowage-go/stowage/types"
)

func TestRSS(t *testing.T) {
	dir := os.Getenv("RSS_DIR")
	if dir == "" {
		for _, of := range []state{due, leased} {
			dir := t.TempDir()
			fill(t, dir, 1_000_000, of, time.Now())
			cmd := exec.Command(os.Args[0], "-test.run=TestRSS", "-test.v")
			cmd.Env = append(os.Environ(), "RSS_DIR="+dir)
			out, _ := cmd.CombinedOutput()
			t.Logf("%s: %s", of, out)
		}
		return
	}
	rss := func(when string) {
		b, _ := os.ReadFile("/proc/self/status")
		for _, l := range strings.Split(string(b), "\n") {
			if strings.HasPrefix(l, "VmRSS") || strings.HasPrefix(l, "VmHWM") || strings.HasPrefix(l, "RssAnon") {
				t.Log(when, l)
			}
		}
	}
	rss("start")
	at := time.Now()
	q := openQueue(t, Options{Dir: dir})
	t.Log("open", time.Since(at))
	rss("open")
	for range 3000 {
		ms, err := q.Receive(t.Context(), types.ReceiveOptions{Max: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ms {
			if err := q.Ack(t.Context(), m.Receipt); err != nil {
				t.Fatal(err)
			}
		}
		if len(ms) == 0 {
			break
		}
	}
	rss("worked")
}
