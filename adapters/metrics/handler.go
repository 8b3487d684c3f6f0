package metrics

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// New makes the handler of /metrics, which answers GET and HEAD. Bad options are INVALID_CONFIG.
func New(opts Options) (http.Handler, error) {
	opts, err := opts.check()
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		newCollector(opts),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	scrape := promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog:          failures{opts.Log},
		ErrorHandling:     promhttp.ContinueOnError,
		EnableOpenMetrics: true,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the metrics are read with GET", http.StatusMethodNotAllowed)
			return
		}
		scrape.ServeHTTP(w, r)
	}), nil
}

// failures logs what keeps a figure from being shown.
type failures struct{ log *slog.Logger }

// Println implements [promhttp.Logger].
func (f failures) Println(v ...any) {
	f.log.Warn("some metrics cannot be shown", "error", fmt.Sprint(v...))
}
