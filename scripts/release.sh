#!/usr/bin/env bash
# release.sh VERSION [--dry-run] makes the release commit and tags every module <folder>/VERSION.
#
# The release commit stands beside the branch, not on it: it takes the replace lines out of every
# go.mod, since `go install …@VERSION` refuses them, and requires the siblings at VERSION. The working
# tree and the branch stay as they are. Nothing is pushed. With --dry-run nothing is written either.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
prefix=github.com/stowage-go/stowage

refuse() { echo "release: $*" >&2; exit 1; }
usage() { echo "usage: scripts/release.sh vMAJOR.MINOR.PATCH[-PRE] [--dry-run]" >&2; exit 2; }

version='' dry=
for arg in "$@"; do
  case $arg in
    --dry-run) dry=1 ;;
    -*) usage ;;
    *) [[ -z $version ]] || usage; version=$arg ;;
  esac
done
[[ -n $version ]] || usage

number='(0|[1-9][0-9]*)'
word='(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)'
[[ $version =~ ^v$number\.$number\.$number(-$word(\.$word)*)?$ ]] ||
  refuse "$version is no version: want vMAJOR.MINOR.PATCH, with -PRE for a pre-release"
((BASH_REMATCH[1] < 2)) ||
  refuse "$version: from v2 on, a module's path has to end in /v${BASH_REMATCH[1]}; rename the modules first"
[[ -z $(git status --porcelain) ]] ||
  refuse "the working tree is not clean; commit or put away: $(git status --porcelain | head -3 | tr '\n' ' ')"
modules=$(scripts/modules.sh)
for module in $modules; do
  ! git rev-parse --quiet --verify "refs/tags/$module/$version" >/dev/null ||
    refuse "the tag $module/$version exists; a published version never changes, so choose the next one"
done
[[ $version == *-* ]] || grep -qF "## [${version#v}]" CHANGELOG.md ||
  refuse "CHANGELOG.md has no heading '## [${version#v}]'; move the unreleased entries below it"

tree=$(mktemp -d)
trap 'git worktree remove --force "$tree" 2>/dev/null || true; rm -rf "$tree"' EXIT
git worktree add --quiet --detach "$tree" HEAD

# The example services live outside the workspace and are not tagged; they follow in step.
for mod in $(sed 's|$|/go.mod|' <<<"$modules") $(git ls-files 'docs/examples/*/go.mod'); do
  edits=()
  while read -r sibling; do edits+=("-dropreplace=$sibling"); done < <(
    go mod edit -json "$mod" | awk -F'"' '$2 == "Replace" { on = 1 } on && $2 == "Path" && $4 ~ /^'"${prefix//\//\\/}"'\// { print $4 }')
  while read -r sibling; do edits+=("-require=$sibling@$version"); done < <(
    awk -v prefix="$prefix/" '
      $1 == "require" && $2 == "(" { block = 1; next }
      $1 == ")" { block = 0 }
      block && index($1, prefix) == 1 { print $1 }
      $1 == "require" && index($2, prefix) == 1 { print $2 }' "$mod")
  ((${#edits[@]} == 0)) || go mod edit "${edits[@]}" "$tree/$mod"
  ! grep -q '=>' "$tree/$mod" || refuse "$mod still has a replace line: $(grep -m1 '=>' "$tree/$mod"); go install would refuse the release"
done

if [[ -n $dry ]]; then
  git -C "$tree" --no-pager diff
  echo "release: would commit the change above on $(git rev-parse --short HEAD), and tag it:"
  sed "s|\$|/$version|; s|^|  |" <<<"$modules"
  exit 0
fi
git -C "$tree" commit --quiet --all --allow-empty --message="release $version"
tags=()
for module in $modules; do
  git -C "$tree" tag --annotate --message="$module $version" "$module/$version"
  tags+=("$module/$version")
done
echo "release: $(git -C "$tree" rev-parse --short HEAD) carries ${#tags[@]} tags; publish them together:"
echo "  git push --atomic origin ${tags[*]}"
