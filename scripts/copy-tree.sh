#!/usr/bin/env bash
# copy-tree.sh DIR copies the working tree, as git would commit it now, into the empty folder DIR and
# makes it a repository with one commit. The checks that change files work on such a copy.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
dest=${1:?usage: copy-tree.sh DIR}
mkdir -p "$dest"
# A file that an editor takes away between the list and the copy is a file that is not there.
git ls-files -z --cached --others --exclude-standard |
  tar --create --file=- --null --files-from=- --ignore-failed-read --warning=no-failed-read 2>/dev/null |
  tar --extract --file=- --directory="$dest"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_NAME=copy GIT_AUTHOR_EMAIL=copy@localhost
export GIT_COMMITTER_NAME=copy GIT_COMMITTER_EMAIL=copy@localhost
git -C "$dest" init --quiet --initial-branch=main
git -C "$dest" config core.fsync none # a scratch copy need not survive a power cut
git -C "$dest" add --all
git -C "$dest" commit --quiet --message='copy of the working tree'
