#!/usr/bin/env bash
# Makes the files of a release in dist/ and signs their checksums; docs/operate/release.md is the whole process.
#
#	packaging/release.sh 1.2.3              the release of the tag v1.2.3, which must be at HEAD
#	packaging/release.sh --dry-run 1.2.3    the same without a tag, signed with a key that is made for it and thrown away
#
# CHECKS are the make targets that must pass first (default "lint test"), KEY the SSH key that signs (default
# ~/.ssh/id_ed25519), SIGNERS the file of keys that may sign. The script sends nothing anywhere.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { echo "release: $*" >&2; exit 1; }
step() { echo "== $*"; }

dry=
if [ "${1:-}" = --dry-run ]; then dry=yes; shift; fi
VERSION=${1:-}
[[ $VERSION =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || die "got the version '$VERSION', want one such as 1.2.3"
CHECKS=${CHECKS-lint test}
KEY=${KEY:-$HOME/.ssh/id_ed25519}
SIGNERS=${SIGNERS:-packaging/allowed_signers}
export SOURCE_DATE_EPOCH

step "the tree, the tag and the changelog"
[ -z "$(git status --porcelain)" ] || die "the tree has uncommitted changes: $(git status --short | head -n 5 | tr '\n' ' ')"
if [ -z "$dry" ]; then
	[ "$(git rev-parse -q --verify "v$VERSION^{commit}")" = "$(git rev-parse HEAD)" ] || die "want the tag v$VERSION at HEAD (git tag -s v$VERSION)"
fi
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
# notes prints the section of a version. A dry run takes the first section, which may be unreleased.
notes() {
	awk -v version="$VERSION" -v dry="$dry" '
		/^## / { if (inside) exit; inside = index($0, "## " version " ") == 1 && !/unreleased/ || dry != ""; next }
		inside { print }' CHANGELOG.md
}
[ -n "$(notes | tr -d '[:space:]')" ] || die "CHANGELOG.md has no section '## $VERSION (YYYY-MM-DD)'"

for check in $CHECKS; do
	step "make $check"
	make --no-print-directory "$check"
done

step "make dist"
make --no-print-directory dist VERSION="$VERSION"
notes >dist/NOTES.md

step "signature"
if [ -n "$dry" ]; then
	scratch=$(mktemp -d)
	trap 'rm -rf "$scratch"' EXIT
	KEY=$scratch/key SIGNERS=$scratch/signers
	ssh-keygen -q -t ed25519 -N '' -C dry-run -f "$KEY"
	echo "dry-run $(cut -d' ' -f1-2 "$KEY.pub")" >"$SIGNERS"
fi
[ -e "$KEY" ] || die "there is no key $KEY: set KEY to the SSH key that signs"
rm -f dist/SHA256SUMS.sig
ssh-keygen -q -Y sign -f "$KEY" -n counterd-release dist/SHA256SUMS
signer=$(ssh-keygen -Y find-principals -f "$SIGNERS" -s dist/SHA256SUMS.sig) || die "the key $KEY is not in $SIGNERS"
ssh-keygen -q -Y verify -f "$SIGNERS" -I "$signer" -n counterd-release -s dist/SHA256SUMS.sig <dist/SHA256SUMS
(cd dist && sha256sum --quiet --check SHA256SUMS)

step "done"
if [ -n "$dry" ]; then
	echo "dry run: dist/ is as a release of $VERSION would be, but for the signature"
else
	echo "push the tag (git push origin v$VERSION) and publish the files of dist/ with the text of dist/NOTES.md"
fi
