#!/usr/bin/env bash
# Breaks modules in the ways that go.work hides, and expects check-modules.sh to see it.
# shellcheck source=scripts/testing.sh
source "$(dirname "${BASH_SOURCE[0]}")/testing.sh"
prefix=github.com/stowage-go/stowage

passes 'modules as they are' scripts/check-modules.sh --no-test types ports

sed -i '\|stretchr/testify v[0-9.]* h1:|d' testkit/go.sum
fails 'a go.sum that lacks a line' 'testkit: go.mod or go.sum is not tidy' scripts/check-modules.sh --no-test testkit
pristine
echo "example.org/gone v1.0.0/go.mod h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" >>testkit/go.sum
fails 'a go.sum with a line too many' 'testkit: go.mod or go.sum is not tidy' scripts/check-modules.sh --no-test testkit
pristine
go mod edit -dropreplace=$prefix/types ports/go.mod
fails 'a replace line that is missing' 'ports: go.mod requires types and has no replace line for it' scripts/check-modules.sh --no-test ports
pristine
go mod edit -replace=$prefix/types=../core ports/go.mod
fails 'a replace line that points elsewhere' 'ports: go.mod replaces types by ../core' scripts/check-modules.sh --no-test ports
pristine
go mod edit -droprequire=$prefix/types ports/go.mod
fails 'a require that only go.work makes up for' 'ports: go.mod or go.sum is not tidy' scripts/check-modules.sh --no-test ports
pristine
go mod edit -require=github.com/stretchr/testify@v1.10.0 ports/go.mod
fails 'a module that lags behind' 'modules require different versions of one module' scripts/check-modules.sh --no-test types
pristine
plant types/planted.go <<<'package types

var planted int = "no number"'
fails 'a module that does not build' 'types: does not build alone' scripts/check-modules.sh --no-test types
pristine
plant types/planted.go <<<'package types

import "fmt"

func planted() { fmt.Printf("%d\n", "no number") }'
fails 'a module that go vet objects to' 'types: go vet objects' scripts/check-modules.sh --no-test types
pristine
plant types/planted_test.go <<<'package types

import "testing"

func TestPlanted(t *testing.T) { t.Fatal("planted") }'
fails 'a test that fails' 'types: tests fail' scripts/check-modules.sh types
fails 'one bad module among good ones' 'check-modules: failed: types' env TESTFLAGS=-run=Planted scripts/check-modules.sh ports types
pristine
fails 'a module that is not there' 'nowhere is no module of go.work' scripts/check-modules.sh nowhere
finish
