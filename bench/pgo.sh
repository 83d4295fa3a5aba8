#!/usr/bin/env bash
# make pgo: what the compiler is told of where counterd's time goes (cmd/counterd/counterd.pgo, which make build takes). A counterd
# that can write profiles is loaded like one at work, with a replica behind it; the profiles of both, of all loads, become one.
# Run it when the way of a command through the server has changed much: a function that is no more is one the compiler guesses again.
#
#   POSTS     posts loaded (1,000,000)       DURATION  of each load (8s)
#   OUT       the file (cmd/counterd/counterd.pgo)
COUNTERD_BIN=${PROFILED_BIN:?a counterd built with -tags profile, as make pgo has it}
. "$(dirname "$0")/lib.sh"
POSTS=${POSTS:-1000000} DURATION=${DURATION:-8s} GO=${GO:-go} OUT=${OUT:-cmd/counterd/counterd.pgo}
COUNTERD_PROFILE=$dir/primary.prof start_counterd primary --appendfsync no --schema cmd/counterd/weibo.schema
primary=$port servers=("$pid")
COUNTERD_PROFILE=$dir/replica.prof start_counterd replica --appendfsync no --replicaof "127.0.0.1 $primary"
servers+=("$pid")

# profiled COMMAND...: a profile of each server meanwhile.
profiled() {
	kill -USR2 "${servers[@]}"
	"$@"
	kill -USR2 "${servers[@]}"
	sleep 0.3 # a signal that comes before the last was taken is none
}
run() {
	"$BIN/counterbench" run --server "127.0.0.1:$primary" --posts "$POSTS" --duration "$DURATION" --slices 1 --warmup 100ms --progress=false "$@"
}
requests() { # SECONDS COMMAND...: by 50 clients, 64 deep
	timeout "$1" redis-benchmark -p "$primary" -c 50 -P 64 -n 1000000000 -r "$POSTS" -q "${@:2}" >/dev/null || [ $? = 124 ]
}
numbered() { # SECONDS FORM: INCRs with numbers of their own, or of the connection
	local own=0
	[ "$2" = connection ] || own=1
	timeout "$1" awk -v own=$own -v posts="$POSTS" 'BEGIN {
		srand(1)
		if (!own) printf "CLIENT IDMP of-the-connection 1\r\n"
		for (i = 1; ; i++) {
			k = sprintf("%012d.cntrn", int(rand() * posts))
			printf "*%d\r\n$4\r\nINCR\r\n$%d\r\n%s\r\n", own ? 5 : 2, length(k), k
			if (own) printf "$4\r\nIDMP\r\n$7\r\nits-own\r\n$%d\r\n%d\r\n", length(i ""), i
		}
	}' | redis-cli -p "$primary" --pipe --pipe-timeout 5 >/dev/null || true
}
key=__rand_int__
page() { printf "$1 " {1..20}; }

run --workloads load
profiled run --workloads incr,get,timeline --depth 64
profiled run --workloads incr,get,timeline --depth 16
profiled run --workloads incr,get,mixed --depth 1
for command in "GET $key.cntrn" "INCR $key.cntrn" "MGET $(page "$key.cntrn")" "COUNTER.MGET weibo $(page "$key")" "HGETALL $key" "HINCRBY $key cntrn 1"; do
	# shellcheck disable=SC2086
	profiled requests "${DURATION%s}" $command
done
for form in arguments connection; do profiled numbered "${DURATION%s}" "$form"; done
$GO tool pprof -proto -output "$dir/merged" "$COUNTERD_BIN" "$dir"/*.prof.* 2>/dev/null
cp "$dir/merged" "$OUT"
ls -l "$OUT"
