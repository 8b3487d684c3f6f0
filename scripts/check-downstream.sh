#!/usr/bin/env bash
# check-downstream.sh [--no-install] builds, tests and runs every service of docs/examples as a service
# outside this repository would: against modules from a module proxy, without replace lines and without
# go.work. Then it installs the command by its version. The proxy is a folder that pack-modules.sh fills; other modules come from the
# module cache or the ordinary proxy.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
prefix=github.com/stowage-go/stowage
install=1
case ${1:-} in
  '') ;;
  --no-install) install= ;;
  *) echo "usage: scripts/check-downstream.sh [--no-install]" >&2; exit 2 ;;
esac
# A version of its own for each run, since the module cache never asks twice for one.
version=v0.0.0-check.$(date +%s).$$

scratch=$(mktemp -d)
cache=$(go env GOMODCACHE)
clean() {
  rm -rf "$scratch"
  rm -rf "$cache/$prefix"/*@"$version" "$cache/$prefix"/*/*@"$version"
  find "$cache/cache/download/$prefix" -name "$version.*" -delete 2>/dev/null || true
}
trap clean EXIT

scripts/copy-tree.sh "$scratch/tree"
cd "$scratch/tree"
scripts/pack-modules.sh "$version" "$scratch/proxy"
echo "check-downstream: packed $(find "$scratch/proxy" -name '*.zip' | wc -l) modules as $version"
modules=$(scripts/modules.sh)
sums=$(for module in $modules; do cat "$module/go.sum" 2>/dev/null || true; done | grep -v "^$prefix/" | sort -u || true)

# -modcacherw lets the packed modules be removed again. Third-party modules are held to the sums of the
# workspace; the packed ones have none yet.
export GOWORK=off CGO_ENABLED=1 GOFLAGS="-mod=mod -modcacherw" GOSUMDB=off
GOPROXY=file://$scratch/proxy,$(go env GOPROXY)
export GOPROXY

fail() { echo "check-downstream: $*" >&2; exit 1; }

# complete WHAT COMMAND… runs a command that resolves modules. One that has to look for the module of a
# package has met a go.mod that does not require what its code imports.
complete() {
  local what=$1 log=$scratch/resolved
  shift
  "$@" 2>"$log" || { cat "$log" >&2; fail "$what: $* fails"; }
  ! grep 'finding module for package' "$log" >&2 || fail "$what: a packed go.mod does not require all that its module imports; run make tidy"
}

examples=0
for mod in docs/examples/*/go.mod; do
  [[ -f $scratch/tree/$mod ]] || continue
  name=$(basename "$(dirname "$mod")")
  cd "$scratch/tree/docs/examples/$name"
  ! grep -q '=>' go.mod || fail "$name: its go.mod has a replace line; that of a service outside would not"
  edits=()
  while read -r path; do edits+=("-require=$path@$version"); done < <(grep -oE "$prefix/[^ ]+ v" go.mod | sed 's/ v$//')
  ((${#edits[@]})) || fail "$name: its go.mod requires no module of this repository"
  go mod edit "${edits[@]}"
  printf '%s\n' "$sums" >>go.sum
  complete "$name" go mod tidy
  go vet ./...
  go build -o /dev/null ./...
  go test ./...
  if [[ $(go list -f '{{.Name}}' .) == main ]]; then
    go build -o "$scratch/bin/$name" .
    output=$("$scratch/bin/$name") || fail "$name: fails when it runs: $output"
    [[ ! -f expected.txt ]] || diff -u expected.txt - <<<"$output" || fail "$name: printed something else than its expected.txt"
  fi
  echo "check-downstream: $name works with packed modules"
  examples=$((examples + 1))
done
((examples)) || fail "docs/examples holds no service"

[[ -n $install ]] || exit 0
# Without -mod=mod, as somebody would who only wants the command.
cd "$scratch"
export GOBIN=$scratch/bin GOFLAGS=-modcacherw
complete cmd go install "$prefix/cmd/stowage@$version"
says=$("$scratch/bin/stowage" version)
[[ $says == *"$version"* ]] || fail "the installed stowage does not say that it is $version: $says"
echo "check-downstream: go install $prefix/cmd/stowage@VERSION works"
