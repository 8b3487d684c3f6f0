#!/usr/bin/env bash
# Makes docs/requirements.md wrong, and the tree around it, and expects check-requirements.sh to see it.
# shellcheck source=scripts/testing.sh
source "$(dirname "${BASH_SOURCE[0]}")/testing.sh"
table=docs/requirements.md

# edited WHAT MESSAGE SED-SCRIPT [FILE] expects the change of a file to be seen.
edited() {
  local file=${4:-$table}
  sed -i -E "$3" "$file"
  git diff --quiet && report "$1: the change changes nothing" "$3"
  fails "$1" "$2" scripts/check-requirements.sh
  pristine
}

passes 'the table as it is' scripts/check-requirements.sh

# The numbers.
edited 'a requirement without a row' 'R047 stands in no row and no range' '/^\| R047 \|/d'
edited 'the last requirement without a row' 'R289 stands in no row and no range' '/^\| R289 \|/d'
edited 'a requirement with two rows' 'R047 stands in line' 's/^\| R048 \|/| R047 |/'
edited 'a row inside a range' 'R048 stands in line' 's/^\| R047 \|/| R047 to R049 |/'
edited 'a range that is too short' 'R049 stands in no row and no range' '/^\| R04[89] \|/d; s/^\| R047 \|/| R047 to R048 |/'
edited 'a range that runs backwards' 'R048 to R047 is no range' '/^\| R048 \|/d; s/^\| R047 \|/| R048 to R047 |/'
sed -i -E '/^\| R048 \|/d; s/^\| R047 \|/| R047 to R048 |/' $table
passes 'a range' scripts/check-requirements.sh
pristine
edited 'a number beyond the last' 'R290 is no requirement' 's/^\| R289 \|/| R290 |/'
edited 'a number in another form' '"R47" is neither R001 nor R001 to R002' 's/^\| R047 \|/| R47 |/'

# What a row says.
edited 'a row that names nothing' 'R047 names nothing that shows it' 's/^(\| R047 \|[^|]*\|).*/\1 believe us |/'
edited 'a row with a cell too many' 'a row has three cells, this one has 4' 's/^\| R047 \|/&x |/'
edited 'a backtick that is not closed' 'a backtick is not closed' 's/^(\| R047 .*)` \|$/\1 |/'

# What it names.
edited 'a test that was never there' 'there is no test adapters/localkv.TestNothing' 's/^(\| R035 \|[^|]*\|).*/\1 `adapters\/localkv.TestNothing` |/'
edited 'a test that was renamed' 'there is no test adapters/localkv.TestPutHasTheFormatOnDisk' 's/TestPutHasTheFormatOnDisk/TestRenamed/' adapters/localkv/store_test.go
edited 'a test that moved to another package' 'there is no test core/config.TestPutHasTheFormatOnDisk' 's/adapters\/localkv\.(TestPutHasTheFormatOnDisk)/core\/config.\1/'
edited 'a case that was renamed' 'there is no case kvtest: scan/a malformed cursor is refused' 's/a malformed cursor is refused/a bad cursor is refused/' testkit/kvtest/scan.go
edited 'a case of another group' 'there is no case kvtest: value/a malformed cursor is refused' 's/scan\/(a malformed cursor)/value\/\1/'
edited 'a case of another suite' 'there is no case queuetest: scan/a malformed cursor is refused' 's/kvtest(: scan\/a malformed cursor)/queuetest\1/'
edited "a case of the sources' suite that was renamed" 'there is no case sourcetest: cursor/identities are the same when a source is opened anew' 's/identities are the same when a source is opened anew/identities stay/' testkit/sourcetest/cursor.go
edited "a case of the sinks' suite that was renamed" 'there is no case sinktest: deliver/an event that is delivered again bears its match id again' 's/an event that is delivered again bears its match id again/doubles bear their id/' testkit/sinktest/deliver.go
edited 'a suite that no adapter runs' 'there is no test adapters/memory.TestKvContract' 's/TestKvContract/TestPlanted/' adapters/memory/contract_test.go
git rm --quiet docs/operating/upgrade.md
fails 'a file that is gone' 'there is no file docs/operating/upgrade.md' scripts/check-requirements.sh
pristine
git rm --quiet $table
fails 'a table that is gone' "$table is missing" scripts/check-requirements.sh
pristine
finish
