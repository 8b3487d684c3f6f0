module example.org/jsonstorage

go 1.26.0

require (
	github.com/stowage-go/stowage/core v0.1.0
	github.com/stowage-go/stowage/ports v0.1.0
	github.com/stowage-go/stowage/testkit v0.1.0
	github.com/stowage-go/stowage/types v0.1.0
	github.com/stretchr/testify v1.12.1
)
