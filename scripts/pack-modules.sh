#!/usr/bin/env bash
# pack-modules.sh VERSION DIR packs every module of the working tree, released as VERSION, into DIR, a
# module proxy for GOPROXY=file://DIR. The release is made by release.sh in a scratch copy, and the go
# command itself fetches it by its tags, so that a tag or a file that is missing shows here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
prefix=github.com/stowage-go/stowage
version=${1:?usage: pack-modules.sh VERSION DIR}
dest=${2:?usage: pack-modules.sh VERSION DIR}

scratch=$(mktemp -d)
trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT
scripts/copy-tree.sh "$scratch/tree"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_NAME=pack GIT_AUTHOR_EMAIL=pack@localhost
export GIT_COMMITTER_NAME=pack GIT_COMMITTER_EMAIL=pack@localhost
"$scratch/tree/scripts/release.sh" "$version" >"$scratch/release.log" || { cat "$scratch/release.log" >&2; exit 1; }

# To the go command the scratch repository is the published one.
export GIT_CONFIG_COUNT=2
export GIT_CONFIG_KEY_0="url.file://$scratch/tree.insteadOf" GIT_CONFIG_VALUE_0="https://$prefix"
export GIT_CONFIG_KEY_1=core.fsync GIT_CONFIG_VALUE_1=none
export GOWORK=off GOFLAGS=-modcacherw GOPROXY=direct GOSUMDB=off GOMODCACHE=$scratch/cache
modules=$("$scratch/tree/scripts/modules.sh")
cd "$scratch"
mapfile -t wanted < <(sed "s|.*|$prefix/&@$version|" <<<"$modules")
go mod download "${wanted[@]}"
for module in $modules; do
  versions=$scratch/cache/cache/download/$prefix/$module/@v
  echo "$version" >"$versions/list"
  rm -f "$versions"/*.lock
done
mkdir -p "$dest/$prefix"
cp -R "$scratch/cache/cache/download/$prefix/." "$dest/$prefix/"
