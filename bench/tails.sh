#!/usr/bin/env bash
# What users wait while the server does something else: counterd and a peer at a fixed rate, in quiet and busy windows that take turns; then what one
# client waits that asks one command at a time, beside floods and very large commands. Neither server makes snapshots by itself meanwhile. At the end
# one page with latency over time, and Markdown for docs/internals/performance.md; bench/README.md says how to read them.
#
#   bench/tails.sh                          beside a redis-server of its own
#   PEER_BIN="redis-server valkey-server" bench/tails.sh     beside several programs of its own, one after the other; "" beside none
#   bench/tails.sh 10.0.0.5:6379,redis-hash beside a server of yours, which must be empty, and is left full
#
#   POSTS      posts loaded (2,000,000)                 WHILE      what happens (bgsave,rewrite,fullsync,demote,repack,seal,check,scrub; empty: nothing)
#   RATE       operations a second (50% of the most that the peer answers)               WORKLOADS  what is asked (incr)
#   DEPTH      in flight on a connection at most (16)   DURATION   of quiet windows, and of busy ones, of each (6s)   SLICES  windows of each (3)
#   FLOOD      connections that flood (10,100; empty: none)          FLOOD_DEPTH  increments in each of their pipelines (1000)
#   HEAVY      very large commands (the nine of bench/heavy; empty: none)               PEER_PASSWORD  of the server of yours
#   OUT        directory for the JSON and HTML files    SERVER_CPU, CLIENT_CPU  processors (0 and 1; empty: not pinned)
. "$(dirname "$0")/lib.sh"
POSTS=${POSTS:-2000000} WHILE=${WHILE-bgsave,rewrite,fullsync,demote,repack,seal,check,scrub} RATE=${RATE:-50%} WORKLOADS=${WORKLOADS:-incr} DEPTH=${DEPTH:-16}
DURATION=${DURATION:-6s} SLICES=${SLICES:-3} FLOOD=${FLOOD-10,100} FLOOD_DEPTH=${FLOOD_DEPTH:-1000} HEAVY=${HEAVY-pipeline,mget,counter.mget,exec,counter.mset,update,del,find,publish}
SERVER_CPU=${SERVER_CPU-0} CLIENT_CPU=${CLIENT_CPU-1} OUT=${OUT:-$dir/out} PEER_PASSWORD=${PEER_PASSWORD:-} PEER_BIN=${PEER_BIN-redis-server}
[ $# -le 1 ] || fail "takes one peer, HOST:PORT[,MODEL], not $#"
if [ -n "$CLIENT_CPU" ] && [ "$(nproc)" -lt 2 ]; then fail "one processor is too few for a server and its load: SERVER_CPU= CLIENT_CPU= does without pinning"; fi
mkdir -p "$OUT"
[ $# = 1 ] || CPUS=${CPUS-$SERVER_CPU} # from the start: see peers.sh
files=()

measure() { # NAME [PEER]
	local name=$1 peer=${2:-} pin=() vs=() flood=()
	start_counterd "counterd-$name" --auto-aof-rewrite-min-size 0
	local a=127.0.0.1:$port apid=$pid
	# The peer of another machine cannot be pinned from here.
	if [ -n "$SERVER_CPU" ] && [[ -z $peer || $peer == 127.* || $peer == localhost:* || $peer == /* ]]; then pin+=(--pin-server "$SERVER_CPU"); fi
	if [ -n "$CLIENT_CPU" ]; then pin+=(--pin-client "$CLIENT_CPU"); fi
	[ -z "$peer" ] || vs=(--vs "$peer" --vs-password "$PEER_PASSWORD")
	[ -z "$FLOOD" ] || flood=(--flood "$FLOOD" --flood-depth "$FLOOD_DEPTH")
	echo "== counterd (A)${peer:+ beside $peer (B)}"
	"$BIN/counterbench" run --server "$a" "${vs[@]}" --posts "$POSTS" --workloads "load,$WORKLOADS" --while "$WHILE" "${flood[@]}" --heavy "$HEAVY" \
		--rate "$RATE" --depth "$DEPTH" --duration "$DURATION" --slices "$SLICES" --warmup "$WARMUP" --progress=false --json "$OUT/tails-$name.json" "${pin[@]}"
	files+=("$OUT/tails-$name.json")
	kill "$apid"
	wait "$apid" || true
	rm -rf "$dir/counterd-$name"
	echo
}

if [ $# = 1 ]; then
	measure peer "$1"
elif [ -z "$PEER_BIN" ]; then
	measure alone
else
	for bin in $PEER_BIN; do
		name=$(basename "$bin")
		PEER_BIN=$bin start_peer "$name" --auto-aof-rewrite-percentage 0
		bpid=$pid
		measure "$name" "127.0.0.1:$port,redis-strings"
		kill "$bpid"
		wait "$bpid" || true
		rm -rf "${dir:?}/$name"
	done
fi
"$BIN/counterbench" page "${files[@]}" --html "$OUT/tails.html" --title "What users wait while the server does something else"
echo "== for docs/internals/performance.md; the page: $OUT/tails.html"
"$BIN/counterbench" markdown "${files[@]}"
