#!/usr/bin/env bash
# Releases a scratch clone, and expects release.sh to refuse what it must.
# shellcheck source=scripts/testing.sh
source "$(dirname "${BASH_SOURCE[0]}")/testing.sh"
prefix=github.com/stowage-go/stowage
version=v0.9.1
sed -i '0,/^## \[Unreleased\]/s//## [Unreleased]\n\n## [0.9.1] - 2026-01-01/' CHANGELOG.md
git commit --quiet --all --message='head the changelog'
before=$(git rev-parse HEAD)

# Refusals.
for bad in 0.9.1 v1 v1.2 v1.2.x v01.2.3 v1.2.3- v1.2.3-01 v1.2.3+build latest; do
  fails "the version $bad" "$bad is no version" scripts/release.sh "$bad" --dry-run
done
fails 'a major version without its path' 'has to end in /v2' scripts/release.sh v2.0.0 --dry-run
fails 'no version' 'usage:' scripts/release.sh
fails 'an unknown flag' 'usage:' scripts/release.sh $version --force
fails 'a version without a changelog' "has no heading '## [0.9.2]'" scripts/release.sh v0.9.2 --dry-run
plant stray.txt <<<'stray'
fails 'a stray file' 'the working tree is not clean' scripts/release.sh $version
pristine
echo >>types/doc.go
fails 'a change that is not committed' 'the working tree is not clean' scripts/release.sh $version
pristine
go mod edit -replace=example.org/x=../x types/go.mod
git commit --quiet --all --message='replace a module elsewhere'
fails 'a replace line of another module' 'types/go.mod still has a replace line' scripts/release.sh $version
git reset --quiet --hard "$before"
[[ -z $(git tag) ]] || report 'a refusal leaves tags' "$(git tag)"

# A dry run.
passes 'a dry run' scripts/release.sh $version --dry-run
[[ -z $(git tag)$(git status --porcelain) && $(git worktree list | wc -l) == 1 && $(git rev-parse HEAD) == "$before" ]] ||
  report 'a dry run changes something' "$(git tag; git status --short; git worktree list)"

# A release.
passes 'a release' scripts/release.sh $version
[[ -z $(git status --porcelain) && $(git rev-parse HEAD) == "$before" && $(git worktree list | wc -l) == 1 ]] ||
  report 'a release moves the branch or the working tree' "$(git status --short; git log --oneline -3; git worktree list)"
for module in $(scripts/modules.sh); do
  cases=$((cases + 1))
  mod=$(git show "$module/$version:$module/go.mod") || report "$module has no tag" "$(git tag)"
  ! grep -q '=>' <<<"$mod" || report "$module is tagged with a replace line" "$mod"
  ! grep "$prefix/" <<<"$mod" | grep -v "^module" | grep -qv " $version\( \|\$\)" || report "$module requires a sibling at another version" "$mod"
  [[ $(git rev-parse "$module/$version^{commit}") == $(git rev-parse "types/$version^{commit}") ]] ||
    report "$module is tagged on another commit" "$(git show-ref --tags)"
done
fails 'the same version again' "the tag $(scripts/modules.sh | head -1)/$version exists" scripts/release.sh $version
finish
