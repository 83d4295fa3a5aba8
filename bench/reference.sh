#!/usr/bin/env bash
# The ratchet: this server beside the server of the best commit so far, which bench/reference.txt names. Small losses of one or two per
# cent a change add up unseen; here they are seen together.
#
# First the two take turns, each on processor 0, the load on processor 1: load, INCR, GET and pages, at each depth. Then, where valgrind
# is installed, the instructions of an operation are counted. They hardly depend on what else the machine does.
#
#   CHECK     1: exit with 1 where a ratio is above LIMIT (1.05), or a ratio of instructions above COUNT_LIMIT (1.02)
#   REF       another commit               TIMES     no: count instructions alone      COUNTS    no: leave them out
#   POSTS     posts loaded (1,000,000)     DEPTHS    pipelines to measure ("64 16 1")
#   DURATION  of each workload for each server (10s)      SLICES    turns that it is cut into (10)
#   SERVER_CPU, CLIENT_CPU  processors (0 and 1; empty: not pinned)
. "$(dirname "$0")/lib.sh"
POSTS=${POSTS:-1000000} DURATION=${DURATION:-10s} SLICES=${SLICES:-10} DEPTHS=${DEPTHS:-64 16 1} SERVER_CPU=${SERVER_CPU-0} CLIENT_CPU=${CLIENT_CPU-1}
CHECK=${CHECK:-0} LIMIT=${LIMIT:-1.05} COUNT_LIMIT=${COUNT_LIMIT:-1.02} TIMES=${TIMES:-yes} COUNTS=${COUNTS:-yes}
REF=${REF:-$(cat bench/reference.txt)}
rev=$(git rev-parse --verify --quiet "$REF^{commit}") || fail "REF=$REF is no commit"
if [ -n "$CLIENT_CPU" ] && [ "$(nproc)" -lt 2 ]; then fail "one processor is too few for a server and its load: SERVER_CPU= CLIENT_CPU= does without pinning"; fi

# Built as its own Makefile does, once.
reference=$BIN/reference/$rev/counterd
if [ ! -x "$reference" ]; then
	echo "reference: building the server of $REF" >&2
	git worktree add -q --detach "$dir/tree" "$rev"
	make -s -C "$dir/tree" build || fail "$REF does not build"
	mkdir -p "$(dirname "$reference")"
	cp "$dir/tree/bin/counterd" "$reference"
	git worktree remove --force "$dir/tree"
fi
above=0
check() { # RATIO LIMIT NAME
	if awk "BEGIN { exit !($1 > $2) }"; then
		echo "above $2: $3, $1 of $REF"
		above=1
	fi
}

times() {
	local pin=() files=() depth load=load, report name ratio
	CPUS=${CPUS-$SERVER_CPU}
	COUNTERD_BIN=$reference start_counterd reference --schema cmd/counterd/weibo.schema
	local b=127.0.0.1:$port
	start_counterd counterd --schema cmd/counterd/weibo.schema
	if [ -n "$SERVER_CPU" ]; then pin+=(--pin-server "$SERVER_CPU"); fi
	if [ -n "$CLIENT_CPU" ]; then pin+=(--pin-client "$CLIENT_CPU"); fi
	for depth in $DEPTHS; do
		echo "== the work tree (A) beside $REF (B), $depth deep"
		"$BIN/counterbench" run --server "127.0.0.1:$port" --vs "$b" --label "the work tree" --label "$REF" --posts "$POSTS" --duration "$DURATION" --slices "$SLICES" \
			--warmup "$WARMUP" --uniform --progress=false --depth "$depth" --workloads "${load}incr,get,timeline" --json "$dir/deep$depth.json" "${pin[@]}"
		files+=("$dir/deep$depth.json") load=
	done
	report=$("$BIN/counterbench" markdown "${files[@]}")
	printf '\n%s\n' "$report"
	while read -r name ratio; do check "$ratio" "$LIMIT" "CPU an operation, $name"; done < <(
		awk -F'|' '/^\| (load|incr|get|timeline) / { for (i = 3; i < NF; i++) if (match($i, /\*\*[0-9.]+\*\*/)) print $2, substr($i, RSTART + 2, RLENGTH - 4) }' <<<"$report")
}

# refs BIN N COMMAND... sets refs to the instructions of a server that starts, makes posts, and executes a command so many times, 64 deep.
refs() {
	local bin=$1 n=$2
	shift 2
	start_counted "$bin" cmd/counterd/weibo.schema
	redis-benchmark -p "$port" -c 4 -P 64 -n 6400 -r 5000 -q INCR __rand_int__.cntrn >/dev/null
	redis-benchmark -p "$port" -c 4 -P 64 -n "$n" -r 5000 -q "$@" >/dev/null
	end_counted
}

# counted BIN N COMMAND... sets counted to the instructions of one execution: the difference of two counts that are N executions apart. With
# few of them, timers of the server that run meanwhile show.
counted() {
	local bin=$1 n=$2 few
	shift 2
	refs "$bin" 6400 "$@"
	few=$refs
	refs "$bin" $((6400 + n)) "$@"
	counted=$(((refs - few) / n))
}

counts() {
	local page name n a b ratio
	page=$(printf '__rand_int__ %.0s' {1..20})
	echo
	echo "| instructions an operation, 64 deep | the work tree | $REF | ratio |"
	echo '|---|---|---|---|'
	for name in "INCR __rand_int__.cntrn" "GET __rand_int__.cntrn" "COUNTER.MGET weibo $page"; do
		n=100000
		if [ "${name%% *}" = COUNTER.MGET ]; then n=10000; fi
		# shellcheck disable=SC2086
		{ counted "$COUNTERD_BIN" "$n" $name; a=$counted; counted "$reference" "$n" $name; b=$counted; }
		ratio=$(awk "BEGIN { printf \"%.3f\", $a / $b }")
		echo "| ${name%% *} | $a | $b | **$ratio** |"
		check "$ratio" "$COUNT_LIMIT" "instructions, ${name%% *}"
	done
}

if [ "$TIMES" != no ]; then times; fi
if [ "$COUNTS" = no ]; then :
elif command -v valgrind >/dev/null && command -v redis-benchmark >/dev/null; then counts
else echo 'LEFT OUT: instructions: install valgrind and redis-tools to count them'; fi
if [ "$CHECK" = 1 ] && [ "$above" = 1 ]; then exit 1; fi
