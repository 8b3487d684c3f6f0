module github.com/stowage-go/stowage/cmd

go 1.26.0

replace (
	github.com/stowage-go/stowage/adapters/adminhttp => ../adapters/adminhttp
	github.com/stowage-go/stowage/adapters/localkv => ../adapters/localkv
	github.com/stowage-go/stowage/adapters/localqueue => ../adapters/localqueue
	github.com/stowage-go/stowage/adapters/memory => ../adapters/memory
	github.com/stowage-go/stowage/adapters/queuehttp => ../adapters/queuehttp
	github.com/stowage-go/stowage/adapters/sqlite => ../adapters/sqlite
	github.com/stowage-go/stowage/adapters/sqlitefile => ../adapters/sqlitefile
	github.com/stowage-go/stowage/core => ../core
	github.com/stowage-go/stowage/ports => ../ports
	github.com/stowage-go/stowage/testkit => ../testkit
	github.com/stowage-go/stowage/types => ../types
)

require (
	github.com/rogpeppe/go-internal v1.16.0
	github.com/spf13/cobra v1.10.2
	github.com/stowage-go/stowage/adapters/adminhttp v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/adapters/localkv v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/adapters/localqueue v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/adapters/memory v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/adapters/queuehttp v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/adapters/sqlite v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/adapters/sqlitefile v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/core v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/ports v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/testkit v0.0.0-00010101000000-000000000000
	github.com/stowage-go/stowage/types v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	golang.org/x/term v0.48.0
)

require (
	github.com/anishathalye/porcupine v1.3.1 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/mattn/go-sqlite3 v1.14.53 // indirect
	github.com/pelletier/go-toml/v2 v2.4.3 // indirect
	github.com/samber/do/v2 v2.0.0 // indirect
	github.com/samber/go-type-to-string v1.8.0 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/tools v0.26.0 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)
