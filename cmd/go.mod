module github.com/stowage-go/stowage/cmd

go 1.26.0

replace (
	github.com/stowage-go/stowage/adapters/adminhttp => ../adapters/adminhttp
	github.com/stowage-go/stowage/adapters/eventlog => ../adapters/eventlog
	github.com/stowage-go/stowage/adapters/localkv => ../adapters/localkv
	github.com/stowage-go/stowage/adapters/localqueue => ../adapters/localqueue
	github.com/stowage-go/stowage/adapters/memory => ../adapters/memory
	github.com/stowage-go/stowage/adapters/metrics => ../adapters/metrics
	github.com/stowage-go/stowage/adapters/ndjson => ../adapters/ndjson
	github.com/stowage-go/stowage/adapters/queuehttp => ../adapters/queuehttp
	github.com/stowage-go/stowage/adapters/sqlite => ../adapters/sqlite
	github.com/stowage-go/stowage/adapters/sqlitefile => ../adapters/sqlitefile
	github.com/stowage-go/stowage/adapters/webhook => ../adapters/webhook
	github.com/stowage-go/stowage/core => ../core
	github.com/stowage-go/stowage/ports => ../ports
	github.com/stowage-go/stowage/testkit => ../testkit
	github.com/stowage-go/stowage/types => ../types
)

require (
	github.com/rogpeppe/go-internal v1.16.0
	github.com/spf13/cobra v1.10.2
	github.com/stowage-go/stowage/adapters/adminhttp v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/adapters/eventlog v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/adapters/localkv v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/adapters/localqueue v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/adapters/memory v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/adapters/metrics v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/adapters/ndjson v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/adapters/queuehttp v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/adapters/sqlite v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/adapters/sqlitefile v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/adapters/webhook v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/core v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/ports v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/testkit v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/types v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	go.opentelemetry.io/otel v1.47.0
	go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp v1.47.0
	go.opentelemetry.io/otel/sdk v1.47.0
	go.opentelemetry.io/otel/trace v1.47.0
	go.opentelemetry.io/proto/otlp v1.11.0
	golang.org/x/term v0.48.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/anishathalye/porcupine v1.3.1 // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cenkalti/backoff/v5 v5.0.3 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/expr-lang/expr v1.17.8 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.30.0 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/mattn/go-sqlite3 v1.14.53 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/pelletier/go-toml/v2 v2.4.3 // indirect
	github.com/prometheus/client_golang v1.25.0 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/common v0.72.0 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	github.com/samber/do/v2 v2.0.0 // indirect
	github.com/samber/go-type-to-string v1.8.0 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel/exporters/otlp/otlptrace v1.47.0 // indirect
	go.opentelemetry.io/otel/log v1.47.0 // indirect
	go.opentelemetry.io/otel/metric v1.47.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/net v0.59.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	golang.org/x/tools v0.49.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260928230214-8a89bd6388cc // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260928230214-8a89bd6388cc // indirect
	google.golang.org/grpc v1.83.2 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)
