#!/usr/bin/env bash
# The standard set: counterd and redis-server take turns in one run, each on processor 0, the load on processor 1; the log is synced each
# second on both. POSTS and DURATION make it larger. An argument HOST:PORT,KIND measures against a server of yours instead.
set -euo pipefail
cd "$(dirname "$0")/.."
POSTS=${POSTS:-2000000}
DURATION=${DURATION:-10s}
dir=$(mktemp -d)
pids=()
cleanup() { for p in "${pids[@]}"; do kill "$p" 2>/dev/null || true; done; wait 2>/dev/null || true; rm -rf "$dir"; }
trap cleanup EXIT
await() { for _ in $(seq 100); do redis-cli -p "$1" ping >/dev/null 2>&1 && return; sleep 0.1; done; echo "no answer on port $1" >&2; exit 1; }

a=$((20000 + RANDOM % 10000)); b=$((a + 1))
mkdir "$dir/counterd" "$dir/redis"
bin/counterd --port $a --dir "$dir/counterd" --appendfsync everysec --loglevel warning & pids+=($!)
await $a
run() { bin/counterbench run --server 127.0.0.1:$a --posts "$POSTS" --duration "$DURATION" --slices 7 --pin-server 0 --pin-client 1 --progress=false "$@"; }
if [ $# -gt 0 ]; then
	peers=("$1")
else
	redis-server --port $b --bind 127.0.0.1 --dir "$dir/redis" --appendonly yes --appendfsync everysec --save '' --loglevel warning >/dev/null & pids+=($!)
	await $b
	peers=("127.0.0.1:$b,redis-strings")
fi
for peer in "${peers[@]}"; do
	echo "== counterd (A) beside $peer (B), 64 deep"
	run --vs "$peer" --depth 64 --workloads load,incr,get --uniform
	echo "== 16 deep"
	run --vs "$peer" --depth 16 --workloads incr,get,timeline --uniform
	echo "== 1 deep"
	run --vs "$peer" --depth 1 --workloads incr,get,timeline --uniform
done
