module github.com/stowage-go/stowage/types

go 1.26.0
