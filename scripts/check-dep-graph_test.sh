#!/usr/bin/env bash
# Plants a violation of each kind and expects check-dep-graph.sh to see it.
# shellcheck source=scripts/testing.sh
source "$(dirname "${BASH_SOURCE[0]}")/testing.sh"
prefix=github.com/stowage-go/stowage
driver=github.com/mattn/go-sqlite3

# imported WHAT MESSAGE FOLDER FILE IMPORT plants a file with one import, in a package of its own.
imported() {
  plant "$3/planted/$4" <<<"package planted

import _ \"$5\""
  fails "$1" "$2" scripts/check-dep-graph.sh
  pristine
}
# Whoever has no production file has no package for its test to belong to.
imported_by_test() { imported "$1" "$2" "$3" planted_test.go "$4"; }

passes 'the tree as it is' scripts/check-dep-graph.sh

# Edges between modules.
imported 'core names an adapter' 'core/planted/x.go imports '"$prefix/adapters/memory"': policy asks a port' core x.go $prefix/adapters/memory
imported_by_test "core's test names an adapter" 'planted_test.go imports '"$prefix/adapters/memory"': policy asks a port' core $prefix/adapters/memory
imported 'an adapter imports another' 'imports '"$prefix/adapters/localkv"': an adapter stands alone' adapters/memory x.go $prefix/adapters/localkv
imported_by_test "an adapter's test imports another adapter" 'imports '"$prefix/adapters/memory"': an adapter stands alone' adapters/localqueue $prefix/adapters/memory
imported 'an adapter without leave imports sqlitefile' "imports $prefix/adapters/sqlitefile: no line" adapters/memory x.go $prefix/adapters/sqlitefile
imported 'ports imports core' 'a contract does not know who uses it' ports x.go $prefix/core/catalog
imported 'types imports ports' 'values stand at the bottom' types x.go $prefix/ports
imported 'types imports a module elsewhere' 'values stand at the bottom' types x.go golang.org/x/term
imported 'an edge nobody wrote down' 'core/planted/x.go imports golang.org/x/term: no line of scripts/dep-graph.txt allows it' core x.go golang.org/x/term
imported 'a production closure without a path of edges' 'adapters/memory: the production closure reaches '"$driver" adapters/memory x.go $prefix/adapters/localkv
imported_by_test 'a test closure without a path of edges' 'core: the test closure reaches adapters/memory' core $prefix/adapters/memory

# Testing code.
imported 'testify in production' 'ports/planted/x.go imports github.com/stretchr/testify/assert: only its tests may' ports x.go github.com/stretchr/testify/assert
imported 'testify in a production closure' 'ports: github.com/stretchr/testify is testing code in the production closure' ports x.go github.com/stretchr/testify/assert
imported 'testkit in production' 'core: testkit is testing code in the production closure' core x.go $prefix/testkit/model
plant elsewhere/go.mod <<<"module example.org/elsewhere

go 1.26

require github.com/stretchr/testify v1.12.1"
plant elsewhere/elsewhere.go <<<'package elsewhere

import _ "github.com/stretchr/testify/assert"'
go mod edit -require=example.org/elsewhere@v0.0.0 -replace=example.org/elsewhere=../elsewhere core/go.mod
echo 'core -> example.org/elsewhere : planted' >>scripts/dep-graph.txt
plant core/planted/x.go <<<'package planted

import _ "example.org/elsewhere"'
fails 'testify behind an allowed module' 'core: github.com/stretchr/testify is testing code in the production closure (assertions): '"$prefix/core/planted imports example.org/elsewhere imports" scripts/check-dep-graph.sh
pristine

# The driver.
imported 'the driver in another module' "core/planted/x.go imports $driver: only adapters/sqlitefile may" core x.go $driver
imported 'the driver in a test' "adapters/localkv/planted/planted_test.go imports $driver: only adapters/sqlitefile may" adapters/localkv planted_test.go $driver
plant adapters/localkv/planted/x.go <<<"//go:build plan9

package planted

import (
	/* why */ _ \"$driver\"
)"
fails 'the driver behind a build tag' "adapters/localkv/planted/x.go imports $driver: only adapters/sqlitefile may" scripts/check-dep-graph.sh
pristine
go mod edit -require=$driver@v1.14.53 cmd/go.mod
sed -i "\|$driver|s|// indirect||" cmd/go.mod
fails 'the driver in a go.mod' "cmd/go.mod requires $driver: only adapters/sqlitefile may" scripts/check-dep-graph.sh
pristine

# Cycles, internal packages, go.mod.
plant core/planted_test.go <<<"package core

import _ \"$prefix/testkit/model\""
imported_by_test 'a cycle over test edges' 'modules form a cycle: ' testkit $prefix/core/catalog
plant core/catalog/internal/secret/x.go <<<'package secret'
plant cmd/planted/x.go <<<"package planted

import _ \"$prefix/core/catalog/internal/secret\""
fails 'an internal package of another module' 'an internal package of another module' scripts/check-dep-graph.sh
pristine
go mod edit -require=$prefix/adapters/memory@v0.0.0 core/go.mod
fails 'a require nobody may have' 'core/go.mod requires adapters/memory: policy asks a port' scripts/check-dep-graph.sh
pristine

# The inventory.
git rm -rq adapters/memory
go work edit -dropuse=./adapters/memory
fails 'a module that vanished' 'adapters/memory: named in scripts/dep-graph.txt and not in go.work' scripts/check-dep-graph.sh
pristine
find adapters/memory -name '*.go' -delete
fails 'a module whose code vanished' 'adapters/memory: the module holds no package' scripts/check-dep-graph.sh
pristine
plant adapters/planted/go.mod <<<"module $prefix/adapters/planted"
plant adapters/planted/doc.go <<<'package planted'
fails 'a module outside go.work' 'adapters/planted: has a go.mod and is not in go.work' scripts/check-dep-graph.sh
go work edit -use=./adapters/planted
fails 'a module that the rules do not name' 'adapters/planted: in go.work and not named' scripts/check-dep-graph.sh
pristine
plant go.mod <<<"module $prefix"
fails 'a go.mod at the root' 'the root is no module' scripts/check-dep-graph.sh
pristine
plant scripts/x.go <<<'package main

import "fmt"

func main() { fmt.Println() }'
fails 'code outside every module' 'scripts/x.go: Go code outside every module' scripts/check-dep-graph.sh
pristine

# The rules.
echo 'core -> adapters/memory : handy' >>scripts/dep-graph.txt
fails 'a rule against a rule' 'allows core -> adapters/memory and forbids it' scripts/check-dep-graph.sh
pristine
echo 'core -> github.com/stretchr/testify : handy' >>scripts/dep-graph.txt
fails 'a rule that lets testing code in' 'allows testing code in production' scripts/check-dep-graph.sh
pristine
echo "cmd -> $driver : handy" >>scripts/dep-graph.txt
fails 'a rule against an only' "allows cmd -> $driver, which only adapters/sqlitefile may have" scripts/check-dep-graph.sh
pristine
echo 'core -> types' >>scripts/dep-graph.txt
fails 'a rule without a reason' 'a rule without a reason' scripts/check-dep-graph.sh
pristine
echo 'core -> example.org/gone : once useful' >>scripts/dep-graph.txt
fails 'a rule that outlived its module' 'example.org/gone, which no go.mod requires any more' scripts/check-dep-graph.sh
finish
