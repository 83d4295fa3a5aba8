#!/usr/bin/env bash
# The standard set: counterd and a peer take turns in one run, each on processor 0, the load on processor 1; the log is synced each second
# on both. Afterwards the results stand as Markdown, ready for docs/internals/performance.md; bench/README.md says how to read them.
#
#   bench/peers.sh                          a redis-server of its own
#   PEER_BIN=valkey-server bench/peers.sh   another program of its own, started with redis-server's flags
#   bench/peers.sh 10.0.0.5:6379,redis-hash a server of yours, and the data model to drive it with (counterbench run --help lists them);
#                                           it must be empty, and is left full. Without a model: one string a counter
#
#   POSTS     posts loaded (2,000,000; the results in docs: 10,000,000)
#   DURATION  of each workload for each server (10s)      SLICES    that it is cut into (7)
#   DEPTHS    pipelines to measure ("64 16 1")            HALF      no: leave out latencies at half load
#   IDLE      idle connections (10,000; 0: leave out)     PEER_PASSWORD  of the server of yours
#   OUT       directory for the JSON and HTML files       SERVER_CPU, CLIENT_CPU  processors (0 and 1; empty: not pinned)
. "$(dirname "$0")/lib.sh"
POSTS=${POSTS:-2000000} DURATION=${DURATION:-10s} SLICES=${SLICES:-7} DEPTHS=${DEPTHS:-64 16 1} HALF=${HALF:-yes} IDLE=${IDLE:-10000}
SERVER_CPU=${SERVER_CPU-0} CLIENT_CPU=${CLIENT_CPU-1} OUT=${OUT:-$dir/out} PEER_PASSWORD=${PEER_PASSWORD:-}
[ $# -le 1 ] || fail "takes one peer, HOST:PORT[,MODEL], not $#"
if [ -n "$CLIENT_CPU" ] && [ "$(nproc)" -lt 2 ]; then fail "one processor is too few for a server and its load: SERVER_CPU= CLIENT_CPU= does without pinning"; fi
mkdir -p "$OUT"
# Pinned from their start: a server that finds two processors and is put on one later serves it with two threads.
[ $# = 1 ] || CPUS=${CPUS-$SERVER_CPU}

if [ $# = 1 ]; then
	peer=$1
else
	start_peer peer
	peer=127.0.0.1:$port,redis-strings
fi
start_counterd counterd
a=127.0.0.1:$port

# The peer of another machine cannot be pinned from here.
pin=()
if [ -n "$SERVER_CPU" ] && [[ $peer == 127.* || $peer == localhost:* || $peer == /* ]]; then pin+=(--pin-server "$SERVER_CPU"); fi
if [ -n "$CLIENT_CPU" ]; then pin+=(--pin-client "$CLIENT_CPU"); fi
files=()
run() { # NAME FLAGS...
	local name=$1
	shift
	"$BIN/counterbench" run --server "$a" --vs "$peer" --vs-password "$PEER_PASSWORD" --posts "$POSTS" --duration "$DURATION" --slices "$SLICES" --warmup "$WARMUP" \
		--uniform --progress=false --json "$OUT/$name.json" --html "$OUT/$name.html" "${pin[@]}" "$@"
	files+=("$OUT/$name.json")
	echo
}
load=load,
for depth in $DEPTHS; do
	echo "== counterd (A) beside $peer (B), $depth deep"
	run "deep$depth" --depth "$depth" --workloads "${load}incr,get,timeline"
	load=
done
if [ "$HALF" != no ]; then
	echo "== latency at half of what B answers at most, one operation in flight on each connection"
	run half --rate 50% --depth 1 --workloads "${load}incr,get,timeline"
fi
echo "== for docs/internals/performance.md"
"$BIN/counterbench" markdown "${files[@]}"
if [ "$IDLE" != 0 ] && [ $# = 0 ]; then
	# Servers started anew: those above have kept memory of their clients.
	start_counterd counterd-idle
	a=127.0.0.1:$port
	start_peer peer-idle
	echo
	echo "== idle connections"
	"$BIN/counterbench" idle --server "$a" --vs "127.0.0.1:$port" --connections "$IDLE" --progress=false --json "$OUT/idle.json"
fi
