#!/usr/bin/env bash
# Holds the tree to the rules of dep-graph.txt, from independent sides: the inventory of modules, the
# requires of each go.mod, the imports written in each .go file (whatever its build tags), and the
# closures that the go command computes, with and without tests. Reports every violation.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
prefix=github.com/stowage-go/stowage
facts=$(mktemp)
trap 'rm -f "$facts"' EXIT
export GOWORK=$PWD/go.work GOFLAGS=-mod=readonly

modules=$(scripts/modules.sh)
{
  sed 's/^/work\t/' <<<"$modules"
  # Modules on disk; docs/examples are outside the workspace on purpose.
  find . -name go.mod -not -path './docs/examples/*' -not -path './.git/*' -not -path '*/testdata/*' \
    -printf 'disk\t%P\n' | sed 's|\t\?/\?go\.mod$||'
  for module in $modules; do
    [[ -f $module/go.mod ]] || continue
    awk -v module="$module" '
      $1 == "module" { printf "path\t%s\t%s\n", module, $2 }
      $1 == "require" && $2 == "(" { block = 1; next }
      $1 == ")" { block = 0 }
      block || $1 == "require" {
        name = block ? $1 : $2
        if (name != "" && name !~ /^\/\//) printf "require\t%s\t%s\t%s\n", module, name, (/\/\/ indirect/ ? "indirect" : "direct")
      }' "$module/go.mod"
  done
  # Every import of every file. Folders that the go command passes over are passed over here.
  find . \( -path ./.git -o -path ./docs/examples -o -name testdata -o -name vendor -o -name '_*' \) -prune -o -name '*.go' -printf '%P\0' |
    xargs -0 -r awk '
      FNR == 1 { block = 0; done = 0; comment = 0 }
      done { next }
      { line = $0 }
      comment { if (!sub(/^.*\*\//, "", line)) next; comment = 0 }
      # A comment is no import, and may stand between any two.
      { while (match(line, /\/\*.*\*\//)) line = substr(line, 1, RSTART - 1) substr(line, RSTART + RLENGTH) }
      line !~ /"/ && line ~ /\/\*/ { comment = 1; sub(/\/\*.*/, "", line) }
      line ~ /^[ \t]*\/\// { next }
      !block && line ~ /^(func|type|var|const)[ \t(]/ { done = 1; next }
      line ~ /^import[ \t]*\(/ { block = 1 }
      block || line ~ /^import[ \t]/ {
        while (match(line, /["`][^"`]+["`]/)) {
          printf "import\t%s\t%s\n", FILENAME, substr(line, RSTART + 1, RLENGTH - 2)
          line = substr(line, RSTART + RLENGTH)
        }
      }
      block && line ~ /\)/ { block = 0 }
    '
  # Names that one module alone may speak, comments included.
  awk '$1 == "only" { print $2, $3 }' scripts/dep-graph.txt | while read -r folder name; do
    { grep -rlF --include='*.go' --exclude-dir=.git --exclude-dir=examples -e "$name" . || true; } |
      sed -e 's|^\./||' -e "\\|^$folder/|d" -e "s|\$|\t$name|" -e 's|^|mention\t|'
  done
  # Every package that any module or test reaches, with what it imports.
  patterns=()
  for module in $modules; do [[ -f $module/go.mod ]] && patterns+=("./$module/..."); done
  go list -e -deps -test -f '{{if not (or .Standard .ForTest)}}{{if .Error}}error	{{.ImportPath}}	{{printf "%.200q" .Error.Err}}
{{end}}package	{{.ImportPath}}	{{if .Module}}{{.Module.Path}}{{end}}	{{join .Imports " "}}	{{join .TestImports " "}} {{join .XTestImports " "}}{{end}}' \
    "${patterns[@]}" 2> >(grep -v 'matched no packages' >&2) | sed -n '/^package\|^error/p'
} >"$facts"

awk -v prefix="$prefix" -f scripts/dep-graph.awk scripts/dep-graph.txt "$facts"
