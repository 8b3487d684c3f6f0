module github.com/stowage-go/stowage/core

go 1.26.0

replace (
	github.com/stowage-go/stowage/ports => ../ports
	github.com/stowage-go/stowage/testkit => ../testkit
	github.com/stowage-go/stowage/types => ../types
)

require (
	github.com/expr-lang/expr v1.17.8
	github.com/pelletier/go-toml/v2 v2.4.3
	github.com/samber/do/v2 v2.0.0
	github.com/stowage-go/stowage/ports v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/testkit v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/types v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	go.opentelemetry.io/otel v1.47.0
	go.opentelemetry.io/otel/sdk v1.47.0
	go.opentelemetry.io/otel/trace v1.47.0
	go.uber.org/goleak v1.3.0
	pgregory.net/rapid v1.3.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/samber/go-type-to-string v1.8.0 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel/log v1.47.0 // indirect
	go.opentelemetry.io/otel/metric v1.47.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.48.0 // indirect
)
