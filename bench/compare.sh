#!/usr/bin/env bash
# Benchmarks of one package at a revision and in the work tree, through benchstat. The two are measured in turns, so that a busy machine is
# unjust to both.
#
#   PKG=./counter BENCH=Get REF=HEAD~3 bench/compare.sh
#
#   REF        revision to compare with (HEAD)      BENCH      which benchmarks, a regular expression (.)
#   PKG        one package, such as ./counter       ROUNDS     turns of each; benchstat wants 6 or more for a verdict (6)
#   ITEMS      posts in the stores of ./counter     BENCHTIME  of one benchmark, as go test's -benchtime (1s)
#   BENCHSTAT  module@version of benchstat
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go} REF=${REF:-HEAD} PKG=${PKG:-} BENCH=${BENCH:-.} ROUNDS=${ROUNDS:-6} BENCHTIME=${BENCHTIME:-1s} ITEMS=${ITEMS:-}
BENCHSTAT=${BENCHSTAT:-golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da}
fail() { echo "bench-compare: $*" >&2; exit 2; }

[ -n "$PKG" ] || fail "name one package: PKG=./counter"
dirs=$($GO list -f '{{.Dir}}' "$PKG" 2>&1) || fail "PKG=$PKG: $dirs"
[ "$(wc -l <<<"$dirs")" = 1 ] || fail "PKG=$PKG are $(wc -l <<<"$dirs") packages: name one"
rev=$(git rev-parse --verify --quiet "$REF^{commit}") || fail "REF=$REF is no revision"
[[ $ROUNDS =~ ^[1-9][0-9]*$ ]] || fail "ROUNDS=$ROUNDS is no number from 1 up"

tmp=$(mktemp -d)
trap 'git worktree remove --force "$tmp/tree" 2>/dev/null; git worktree prune; rm -rf "$tmp"' EXIT
git worktree add -q --detach "$tmp/tree" "$rev"
dir=${dirs#"$PWD"}; dir=.${dir:-/}
build() { (cd "$1" && $GO test -c -o "$2" "$dir") && [ -f "$2" ] || fail "$dir at $3 has no tests that build"; }
build "$tmp/tree" "$tmp/old.test" "$REF"
build . "$tmp/new.test" "the work tree"

# Where the package is: its benchmarks may read files beside them.
run() { (cd "$1/$dir" && "$tmp/$2.test" -test.run '^$' -test.bench "$BENCH" -test.benchmem -test.benchtime "$BENCHTIME" ${ITEMS:+-items "$ITEMS"}) >>"$tmp/$2.txt"; }
for i in $(seq "$ROUNDS"); do
	echo "bench-compare: round $i of $ROUNDS" >&2
	if ((i % 2)); then run "$tmp/tree" old; run . new; else run . new; run "$tmp/tree" old; fi
done
grep -q '^Benchmark' "$tmp/old.txt" "$tmp/new.txt" || fail "no benchmark of $dir matches BENCH=$BENCH"
(cd "$tmp" && $GO run "$BENCHSTAT" "$REF=old.txt" "tree=new.txt")
