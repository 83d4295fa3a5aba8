#!/usr/bin/env bash
# What size costs. First a large counterd (A) beside a small one (B), both in memory, taking turns: bytes a post, processor time of incr, get
# and timeline. Then a counterd that holds more than its --maxmemory: rate of loading, resident memory, files, and the latency of pages of
# recent posts (timeline) and of old ones (cold).
#
#   LARGE      posts of A (100,000,000; 0: leave out)     SMALL      posts of B (1,000,000)
#   HUGE       posts of the third (1,000,000,000; 0: leave out)      MAXMEMORY  its --maxmemory (6gb)
#   DURATION   of each workload for each server (20s)     SLICES     that it is cut into (7)     DEPTH  of incr, get, timeline (64)
#   OUT        directory for the JSON and HTML files      TMPDIR     where the servers keep their data: about 30 bytes a post
#   SERVER_CPU, CLIENT_CPU  processors (0 and 1; empty: not pinned)
. "$(dirname "$0")/lib.sh"
LARGE=${LARGE:-100000000} SMALL=${SMALL:-1000000} HUGE=${HUGE:-1000000000} MAXMEMORY=${MAXMEMORY:-6gb}
DURATION=${DURATION:-20s} SLICES=${SLICES:-7} DEPTH=${DEPTH:-64} OUT=${OUT:-$dir/out} SERVER_CPU=${SERVER_CPU-0} CLIENT_CPU=${CLIENT_CPU-1}
mkdir -p "$OUT"
CPUS=${CPUS-$SERVER_CPU} # from the start: see peers.sh
pin=()
[ -z "$SERVER_CPU" ] || pin+=(--pin-server "$SERVER_CPU")
[ -z "$CLIENT_CPU" ] || pin+=(--pin-client "$CLIENT_CPU")
run() { "$BIN/counterbench" run --duration "$DURATION" --slices "$SLICES" --warmup "$WARMUP" "${pin[@]}" "$@"; }

if [ "$LARGE" != 0 ]; then
	start_counterd large
	a=127.0.0.1:$port apid=$pid
	start_counterd small
	echo "== $LARGE posts (A) beside $SMALL posts (B), in memory; A/B of CPU us/op is what size costs"
	run --server "$a" --vs "127.0.0.1:$port" --posts "$LARGE" --vs-posts "$SMALL" --depth "$DEPTH" --uniform \
		--workloads load,incr,get,timeline --json "$OUT/large.json" --html "$OUT/large.html"
	kill "$apid" "$pid"
	wait "$apid" "$pid" || true
	rm -rf "$dir/large" "$dir/small"
fi

if [ "$HUGE" != 0 ]; then
	start_counterd huge --maxmemory "$MAXMEMORY"
	show() {
		echo
		echo "-- $1: resident $(memory "$pid"), files $(du -sm "$dir/huge" | cut -f 1) MiB: $(cd "$dir/huge" && du -sm -- */ | awk '{printf "%s %s MiB  ", $2, $1}')"
		info "$port" tiers
	}
	echo
	echo "== $HUGE posts with --maxmemory $MAXMEMORY"
	run --server "127.0.0.1:$port" --posts "$HUGE" --depth "$DEPTH" --workloads load --json "$OUT/huge-load.json"
	show "after loading"
	run --server "127.0.0.1:$port" --posts "$HUGE" --depth 1 --workloads timeline,cold --json "$OUT/huge.json" --html "$OUT/huge.html"
	show "after pages of recent posts (timeline) and of old ones (cold)"
fi
