#!/usr/bin/env bash
# The standard set: counterd and a peer take turns in one run, each on processor 0, the load on processor 1; the log is synced each second
# on both. Afterwards the results stand as Markdown, ready for docs/internals/performance.md; bench/README.md says how to read them.
#
#   bench/peers.sh                          a redis-server of its own
#   PEER_BIN="valkey-server pogocache" bench/peers.sh    other programs of its own, one after the other, started with redis-server's flags
#                                           or with those of Pogocache, which keeps no log. bin/floor is bench/floor: make bench-floor
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

# measure NAME ADDRESS VERSION [PID]: counterd, started for it, beside the peer that answers at ADDRESS, the process PID of this machine.
measure() {
	local name=$1 peer=$2 version=$3 load=load, files=() pin=() depth own
	start_counterd "counterd-$name"
	own=127.0.0.1:$port
	# Pogocache does not tell its process.
	[ -z "${4:-}" ] || pin+=(--server-pid "$pid,$4" --label counterd --label "$name")
	# The peer of another machine cannot be pinned from here.
	if [ -n "$SERVER_CPU" ] && [[ $peer == 127.* || $peer == localhost:* || $peer == /* ]]; then pin+=(--pin-server "$SERVER_CPU"); fi
	if [ -n "$CLIENT_CPU" ]; then pin+=(--pin-client "$CLIENT_CPU"); fi
	for depth in $DEPTHS; do
		echo "== counterd (A) beside $peer (B), $depth deep"
		run "$name-deep$depth" --depth "$depth" --workloads "${load}incr,get,timeline"
		load=
	done
	if [ "$HALF" != no ]; then
		echo "== latency at half of what B answers at most, one operation in flight on each connection"
		run "$name-half" --rate 50% --depth 1 --workloads "${load}incr,get,timeline"
	fi
	echo "== for docs/internals/performance.md"
	echo "$(date +%F), $("$COUNTERD_BIN" --version) beside $version"
	echo
	"$BIN/counterbench" markdown "${files[@]}"
	# Stopped before the next peer starts, which measures on the same processor.
	kill "$pid"
	wait "$pid" || true
}
run() { # NAME FLAGS...: the variables are those of measure
	local out=$1
	shift
	"$BIN/counterbench" run --server "$own" --vs "$peer" --vs-password "$PEER_PASSWORD" --posts "$POSTS" --duration "$DURATION" --slices "$SLICES" --warmup "$WARMUP" \
		--uniform --progress=false --json "$OUT/$out.json" --html "$OUT/$out.html" "${pin[@]}" "$@"
	files+=("$OUT/$out.json")
	echo
}
if [ $# = 1 ]; then
	measure peer "$1" "$1"
	exit
fi
for bin in ${PEER_BIN:-redis-server}; do
	name=$(basename "$bin")
	PEER_BIN=$bin start_peer "$name"
	peer_pid=$pid
	model=redis-strings
	[[ $name != pogocache* ]] || model=redis-set # it has no MSET
	[[ $name != floor ]] || model=counterd
	measure "$name" "127.0.0.1:$port,$model" "$("$bin" --version)" "$peer_pid"
	kill "$peer_pid"
	wait "$peer_pid" || true
	if [ "$IDLE" != 0 ]; then
		# Servers started anew: those above have kept memory of their clients.
		start_counterd "counterd-$name-idle"
		own=127.0.0.1:$port own_pid=$pid
		PEER_BIN=$bin start_peer "$name-idle"
		echo
		echo "== idle connections"
		"$BIN/counterbench" idle --server "$own" --vs "127.0.0.1:$port" --server-pid "$own_pid,$pid" --connections "$IDLE" --progress=false --json "$OUT/$name-idle.json"
		kill "$own_pid" "$pid"
		wait "$own_pid" "$pid" || true
	fi
done
