module github.com/stowage-go/stowage/ports

go 1.26.0

replace github.com/stowage-go/stowage/types => ../types

require github.com/stowage-go/stowage/types v0.0.0-00010101000000-000000000000
