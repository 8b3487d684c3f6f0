#!/usr/bin/env bash
# Holds docs/requirements.md to the tree: each requirement stands in one row or one range, each row says
# what shows it, and every test, case of a suite and file that a last cell names in backticks exists.
# Reports every violation.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
table=docs/requirements.md
last=289
known=$(mktemp) named=$(mktemp)
trap 'rm -f "$known" "$named"' EXIT
[[ -f $table ]] || { echo "check-requirements: $table is missing" >&2; exit 1; }

# What may be named: folder.Function of every test, and suite: group/case of the contract suites.
find . -path ./.git -prune -o -name '*_test.go' -printf '%P\0' | xargs -0 awk '
  /^func (Test|Example|Fuzz|Benchmark)[A-Za-z0-9_]*\(/ {
    folder = FILENAME; sub(/\/[^\/]*$/, "", folder)
    name = $2; sub(/\(.*/, "", name)
    print folder "." name
  }' >"$known"
for suite in kvtest queuetest storagetest sourcetest sinktest; do
  awk -v suite="$suite" '
    /^var [a-z]+Cases = \[\]testCase\{/ { group = $2; sub(/Cases$/, "", group) }
    /^}/ { group = "" }
    group != "" && match($0, /^\t\{name: "[^"]+"/) { print suite ": " group "/" substr($0, 10, RLENGTH - 10) }
  ' "testkit/$suite"/*.go >>"$known"
done

violations=0
report() { echo "check-requirements: $1" >&2; violations=$((violations + 1)); }

# The numbers, and what the rows name.
while IFS=$'\t' read -r kind line text; do
  case $kind in
    fault) report "$table:$line: $text" ;;
    name) printf '%s\t%s\n' "$line" "$text" >>"$named" ;;
  esac
done < <(awk -v last=$last '
  function fault(text) { print "fault\t" NR "\t" text }
  function covered(n) {
    if (n < 1 || n > last) fault(sprintf("R%03d is no requirement: they go from R001 to R%03d", n, last))
    else if (n in at) fault(sprintf("R%03d stands in line %d already", n, at[n]))
    else at[n] = NR
  }
  !/^\|/ || /^\| *---/ { next }
  {
    cells = split($0, cell, / *\| */)
    first = cell[2]; shown = cell[cells - 1]
    if (cells != 5) { fault("a row has three cells, this one has " cells - 2); next }
    if (first ~ /^R[0-9][0-9][0-9]$/) covered(substr(first, 2) + 0)
    else if (first ~ /^R[0-9][0-9][0-9] to R[0-9][0-9][0-9]$/) {
      from = substr(first, 2, 3) + 0; to = substr(first, 10) + 0
      if (from >= to) fault(first " is no range")
      for (n = from; n <= to; n++) covered(n)
    } else if (first ~ /R[0-9]/) fault("\"" first "\" is neither R001 nor R001 to R002")
    parts = split(shown, part, /`/)
    if (parts % 2 == 0) fault("a backtick is not closed")
    for (i = 2; i < parts; i += 2) print "name\t" NR "\t" part[i]
    if (first ~ /^R/ && parts < 3 && shown !~ /^not yet: /) fault(first " names nothing that shows it; name it in backticks, or say \"not yet: \" and why")
  }
  END {
    for (n = 1; n <= last; n++) if (!(n in at)) { NR = 0; fault(sprintf("R%03d stands in no row and no range", n)) }
  }' "$table")

while IFS=$'\t' read -r line what name; do
  [[ $what == file && -f $name ]] || report "$table:$line: there is no $what $name"
done < <(awk -F'\t' '
  FILENAME == ARGV[1] { known[$1]; next }
  $2 in known { next }
  { what = "file" }
  $2 ~ /^[a-z0-9\/_-]+\.(Test|Example|Fuzz|Benchmark)[A-Za-z0-9_]*$/ { what = "test" }
  $2 ~ /^(kvtest|queuetest|storagetest|sourcetest|sinktest): / { what = "case" }
  { print $1 "\t" what "\t" $2 }' "$known" "$named")

if ((violations)); then
  echo "check-requirements: $violations violations" >&2
  exit 1
fi
echo "check-requirements: $last requirements, $(wc -l <"$named") references"
