#!/usr/bin/env bash
# Breaks what only somebody outside the repository would notice, and expects check-downstream.sh to see
# it. One small service stands in for the real ones, which the check itself builds.
# shellcheck source=scripts/testing.sh
source "$(dirname "${BASH_SOURCE[0]}")/testing.sh"
prefix=github.com/stowage-go/stowage

rm -rf docs/examples
plant docs/examples/small/go.mod <<<"module example.org/small

go 1.26

require $prefix/ports v0.1.0"
plant docs/examples/small/main.go <<<"package main

import (
	\"fmt\"

	\"$prefix/ports\"
)

func main() { fmt.Println(ports.CodeNotFound) }"
plant docs/examples/small/expected.txt <<<'NOT_FOUND'
git add --all
git commit --quiet --message='a small service'

passes 'a service that is right' scripts/check-downstream.sh --no-install
go mod edit -droprequire=$prefix/types ports/go.mod
fails 'a module whose go.mod go.work made up for' 'a packed go.mod does not require all' scripts/check-downstream.sh --no-install
pristine
echo '/types/kv.go' >>.gitignore
git rm -q --cached types/kv.go
git commit --quiet --all --message='lose a file'
fails 'a module with a file that git does not have' 'undefined: types.' scripts/check-downstream.sh --no-install
git reset --quiet --hard HEAD~1
sed -i 's/CodeNotFound/CodeMissing/' docs/examples/small/main.go
fails 'a service that does not build' 'undefined: ports.CodeMissing' scripts/check-downstream.sh --no-install
pristine
echo 'SOMETHING_ELSE' >docs/examples/small/expected.txt
fails 'a service that prints something else' 'printed something else' scripts/check-downstream.sh --no-install
pristine
plant docs/examples/small/main_test.go <<<'package main

import "testing"

func TestPlanted(t *testing.T) { t.Fatal("planted") }'
fails 'a service whose test fails' 'FAIL: TestPlanted' scripts/check-downstream.sh --no-install
pristine
go mod edit -replace=$prefix/ports=../../../ports docs/examples/small/go.mod
fails 'a service with a replace line' 'has a replace line' scripts/check-downstream.sh --no-install
pristine
git rm -rq docs/examples
fails 'no service at all' 'docs/examples holds no service' scripts/check-downstream.sh --no-install
finish
