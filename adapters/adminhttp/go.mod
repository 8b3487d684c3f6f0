module github.com/stowage-go/stowage/adapters/adminhttp

go 1.26.0

replace (
	github.com/stowage-go/stowage/ports => ../../ports
	github.com/stowage-go/stowage/testkit => ../../testkit
	github.com/stowage-go/stowage/types => ../../types
)

require (
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	github.com/stowage-go/stowage/ports v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/testkit v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/types v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v3 v3.0.6
)

require (
	github.com/google/uuid v1.6.0 // indirect
	golang.org/x/text v0.14.0 // indirect
)
