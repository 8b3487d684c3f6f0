#!/usr/bin/env bash
# Prints the folder of every module, one a line. go.work is the one inventory: tidy, test, pack and
# tag all loop over this list.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
GOWORK=$PWD/go.work go work edit -json | awk -F'"' '$2 == "DiskPath" { sub(/^\.\//, "", $4); print $4 }'
