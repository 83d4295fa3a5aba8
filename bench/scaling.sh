#!/usr/bin/env bash
# What a second processor gives: counterd on one processor (B, GOMAXPROCS=1) and on two (A, GOMAXPROCS=2), taking turns. Where there are four
# processors and more, throughput is compared: the server has processors 0 and 1, the load the others. Where there are fewer, the load has to share
# them, and what is compared is the server's processor time an operation (in instructions too, where the machine counts them): twice as many
# processors do 2 x (time on one / time on two) as many operations, provided that none waits for another. How long goroutines waited for locks is
# measured apart, by the engine's own benchmark on one and two processors, which needs no load.
#
#   POSTS     posts loaded (1,000,000)           DURATION  of each workload for each server (20s)   SLICES  turns (7)
#   DEPTH     operations in flight (64)          RATE      operations a second while processor time is compared ("50%"; empty: as many as possible)
#   WORKLOADS (get,incr,timeline)                OUT       directory for the JSON and HTML files
#   SERVER_CPU  empty: the servers are not pinned, GOMAXPROCS alone tells them apart
. "$(dirname "$0")/lib.sh"
POSTS=${POSTS:-1000000} DURATION=${DURATION:-20s} SLICES=${SLICES:-7} DEPTH=${DEPTH:-64} RATE=${RATE-} WORKLOADS=${WORKLOADS:-get,incr,timeline} OUT=${OUT:-$dir/out}
GO=${GO:-go}
mkdir -p "$OUT"
cpus=$(nproc)
[ "$cpus" -ge 2 ] || fail "one processor is too few to compare with two"
pinone=0 pintwo=0,1
[ -n "${SERVER_CPU-0}" ] || pinone= pintwo=
GOMAXPROCS=2 CPUS=$pintwo start_counterd two
two=127.0.0.1:$port twopid=$pid
GOMAXPROCS=1 CPUS=$pinone start_counterd one
one=127.0.0.1:$port onepid=$pid
run() { "$BIN/counterbench" run --server "$two" --vs "$one" --server-pid "$twopid,$onepid" --label GOMAXPROCS=2 --label GOMAXPROCS=1 --posts "$POSTS" --duration "$DURATION" --slices "$SLICES" --warmup "$WARMUP" --uniform --progress=false "$@"; }

echo "== counterd with GOMAXPROCS=2 (A) and GOMAXPROCS=1 (B), $DEPTH deep, $cpus processors"
if [ "$cpus" -ge 4 ]; then
	echo "measured: operations per second; the load runs on processors of its own. A/B of ops/s is the speed-up."
	run --depth "$DEPTH" --workloads "load,$WORKLOADS" --pin-client "2-$((cpus - 1))" --json "$OUT/scaling.json" --html "$OUT/scaling.html"
	exit
fi
echo "measured: the server's processor time an operation, with the load on the same processors. The speed-up that this allows is 2 / (A/B of CPU us/op);"
echo "operations per second say nothing here: the load takes what the server would use."
rate=()
[ -z "$RATE" ] || rate=(--rate "$RATE")
run --depth "$DEPTH" "${rate[@]}" --workloads "load,$WORKLOADS" --json "$OUT/scaling.json" --html "$OUT/scaling.html"
echo
# | get | **0.98** ±3 % (0.45 / 0.46 us) |
[ -n "$RATE" ] || "$BIN/counterbench" markdown "$OUT/scaling.json" | awk -F'[|]|[*][*]' '$3 == " " && $4 + 0 > 0 { printf "speed-up allowed for%s: %.2f x\n", $2, 2 / $4 }'
echo
echo "== the engine alone, batches of 64 by one goroutine and by as many as processors, in turns: processor time an operation, what it is times that"
echo "   of one (x), how much longer a turn lasts (wall-x), and the time that goroutines waited for locks (wait-ns/op)"
(cd counter && $GO test -run '^$' -bench Cores -benchtime 6000000x -count 3 -items "$POSTS" .) | grep -v '^ok\|^PASS' || true

if command -v perf >/dev/null && ! perf stat -x, -e instructions:u true 2>&1 | grep -q 'not supported\|not counted\|denied'; then
	echo
	echo "== instructions an operation (user space), by perf stat over a run of get"
	for side in two one; do
		addr=${!side} p=${side}pid
		perf stat -x, -e instructions:u -p "${!p}" -o "$dir/$side.perf" -- \
			"$BIN/counterbench" run --server "$addr" --posts "$POSTS" --duration "$DURATION" --warmup 0s --slices 1 --uniform --depth "$DEPTH" --workloads get --progress=false --json "$dir/$side.json" >/dev/null
		count=$(awk -F, '/instructions/ {print $1}' "$dir/$side.perf") ops=$(grep -m1 '"ops"' "$dir/$side.json" | tr -dc 0-9)
		echo "GOMAXPROCS of $side: $((count / ops)) an operation"
	done
else
	echo
	echo "instructions: not counted on this machine (perf stat -e instructions:u)"
fi
