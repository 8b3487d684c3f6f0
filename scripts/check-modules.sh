#!/usr/bin/env bash
# check-modules.sh [--no-test] [MODULE…] proves that each module stands alone: with GOWORK=off, as its
# go.mod and go.sum say, it is tidy, vets, builds and passes its tests. go.work hides a go.sum that has
# drifted and a replace line that is missing; this does not. RACE=1 runs the tests with the race
# detector; TESTFLAGS adds flags to go test.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
prefix=github.com/stowage-go/stowage
export GOWORK=off CGO_ENABLED=1

known=$(scripts/modules.sh)
tests=1 modules=()
for arg in "$@"; do
  case $arg in
    --no-test) tests= ;;
    -*) echo "usage: scripts/check-modules.sh [--no-test] [MODULE…]" >&2; exit 2 ;;
    *)
      grep -qxF -- "${arg%/}" <<<"$known" || { echo "check-modules: $arg is no module of go.work" >&2; exit 2; }
      modules+=("${arg%/}")
      ;;
  esac
done
((${#modules[@]})) || mapfile -t modules <<<"$known"
read -ra flags <<<"${TESTFLAGS:-}"

failed=()
fail() { echo "check-modules: $1: $2" >&2; failed+=("$1"); }

# siblings MODULE prints every sibling that its go.mod requires, and where its replace line points.
siblings() {
  awk -v prefix="$prefix/" '
    ($1 == "require" || $1 == "replace") && $2 == "(" { block = $1; next }
    $1 == ")" { block = "" }
    { verb = block; first = 1 }
    verb == "" && ($1 == "require" || $1 == "replace") { verb = $1; first = 2 }
    index($first, prefix) != 1 { next }
    verb == "require" { required[substr($first, length(prefix) + 1)] = 1 }
    verb == "replace" { points[substr($first, length(prefix) + 1)] = $NF }
    END { for (name in required) print name, (name in points ? points[name] : "-") }' "$1/go.mod" | sort
}

# One version of whatever is required directly: a module that lags behind would be tested with something
# else than what the binary is built from.
skew=$(for module in $known; do
  awk '$1 == "require" && $2 == "(" { block = 1; next }
    $1 == ")" { block = 0 }
    /\/\/ indirect/ { next }
    block && $1 !~ /^\/\// { print $1, $2 }
    $1 == "require" { print $2, $3 }' "$module/go.mod"
done | grep -v "^$prefix/" | sort -u | awk '$1 == last { print "  " $1 ": " version " and " $2 } { last = $1; version = $2 }')
[[ -z $skew ]] || fail go.mod "modules require different versions of one module:
$skew"

for module in "${modules[@]}"; do
  SECONDS=0
  while read -r sibling target; do
    [[ -n $sibling ]] || continue
    if [[ $target == - ]]; then
      fail "$module" "go.mod requires $sibling and has no replace line for it; without go.work it cannot be found"
    elif [[ $(cd "$module" && cd "$target" 2>/dev/null && pwd) != "$root/$sibling" ]]; then
      fail "$module" "go.mod replaces $sibling by $target, which is not its folder"
    fi
  done < <(siblings "$module")
  [[ ! " ${failed[*]-} " == *" $module "* ]] || continue

  cd "$root/$module"
  go mod tidy -diff || { fail "$module" "go.mod or go.sum is not tidy; run make tidy"; cd "$root"; continue; }
  go build -o /dev/null ./... || fail "$module" "does not build alone"
  go vet ./... || fail "$module" "go vet objects"
  race=()
  [[ -z ${RACE:-} ]] || race=(-race)
  [[ -z $tests ]] || go test ${flags[@]+"${flags[@]}"} ${race[@]+"${race[@]}"} ./... || fail "$module" "tests fail"
  cd "$root"
  [[ " ${failed[*]-} " == *" $module "* ]] || echo "check-modules: $module stands alone (${SECONDS}s)"
done

if ((${#failed[@]})); then
  echo "check-modules: failed: $(printf '%s\n' "${failed[@]}" | sort -u | tr '\n' ' ')" >&2
  exit 1
fi
