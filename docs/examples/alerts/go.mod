module example.org/alerts

go 1.26.0

require (
	github.com/stowage-go/stowage/adapters/localqueue v0.1.0
	github.com/stowage-go/stowage/adapters/sqlite v0.1.0
	github.com/stowage-go/stowage/core v0.1.0
	github.com/stowage-go/stowage/ports v0.1.0
	github.com/stowage-go/stowage/types v0.1.0
)
