module github.com/stowage-go/stowage/adapters/ndjson

go 1.26.0

replace (
	github.com/stowage-go/stowage/ports => ../../ports
	github.com/stowage-go/stowage/testkit => ../../testkit
	github.com/stowage-go/stowage/types => ../../types
)

require (
	github.com/pelletier/go-toml/v2 v2.4.3
	github.com/stowage-go/stowage/ports v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/testkit v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/types v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
	pgregory.net/rapid v1.3.0
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect
