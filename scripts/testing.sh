# Sourced by the tests of scripts. It gives each test a scratch copy of the tree in $tree, and takes it
# away again.
set -euo pipefail
source_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
test_name=$(basename "$0")
scratch=$(mktemp -d)
trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT
tree=$scratch/tree
"$source_root/scripts/copy-tree.sh" "$tree"
cd "$tree"

export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_NAME=test GIT_AUTHOR_EMAIL=test@localhost
export GIT_COMMITTER_NAME=test GIT_COMMITTER_EMAIL=test@localhost

cases=0 failures=0
report() {
  failures=$((failures + 1))
  printf '%s: FAIL: %s\n' "$test_name" "$1" >&2
  sed 's/^/    /' <<<"$2" | tail -20 >&2
}

# passes WHAT COMMAND… expects success.
passes() {
  local what=$1 output
  shift
  cases=$((cases + 1))
  output=$("$@" 2>&1) || report "$what: want success, got:" "$output"
}

# fails WHAT MESSAGE COMMAND… expects a failure whose output holds MESSAGE.
fails() {
  local what=$1 message=$2 output
  shift 2
  cases=$((cases + 1))
  if output=$("$@" 2>&1); then
    report "$what: want a failure, got success:" "$output"
  elif [[ $output != *"$message"* ]]; then
    report "$what: want \"$message\", got:" "$output"
  fi
}

# plant FILE puts its standard input there; pristine undoes everything since the last commit.
plant() { mkdir -p "$(dirname "$1")" && cat >"$1"; }
pristine() {
  git reset --quiet --hard
  git clean --quiet -ffdx
}

# finish ends the test.
finish() {
  if ((failures)); then
    echo "$test_name: $failures of $cases cases fail" >&2
    exit 1
  fi
  echo "$test_name: $cases cases pass"
}
