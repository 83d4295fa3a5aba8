#!/usr/bin/env bash
# What windows and numbers add to an INCR: a server with a plain column, one with a window of it, and numbered INCRs on the first, in turns: the
# server's processor time of an INCR, and how many times a plain one it is. Then, where valgrind is installed, the instructions of an INCR.
#
#   POSTS   incremented ("5000 1000000")   WARM    additions to each post before (8)      ROUNDS  turns (11)
#   COUNT   INCRs of a turn (2,000,000)    TIMES   no: count instructions alone           COUNTS  no: leave them out
#   WINDOW  of the column (1h/5m)          SERVER_CPU, CLIENT_CPU  processors (0 and 1; empty: not pinned)
. "$(dirname "$0")/lib.sh"
POSTS=${POSTS:-5000 1000000} WARM=${WARM:-8} ROUNDS=${ROUNDS:-11} COUNT=${COUNT:-2000000} TIMES=${TIMES:-yes} COUNTS=${COUNTS:-yes} WINDOW=${WINDOW:-1h/5m}
SERVER_CPU=${SERVER_CPU-0} CLIENT_CPU=${CLIENT_CPU-1} plain=cmd/counterd/weibo.schema window=$dir/window.schema
cp "$plain" "$window"
echo "add column weibo repost1h window=$WINDOW of=repost" >>"$window"

adds() { # FLAGS...
	local pin=()
	if [ -n "$CLIENT_CPU" ] && command -v taskset >/dev/null; then pin=(taskset -c "$CLIENT_CPU"); fi
	"${pin[@]}" "$BIN/counterbench" adds "$@"
}

times() { # POSTS
	local a b apid bpid
	CPUS=${CPUS-$SERVER_CPU}
	start_counterd "plain$1" --appendfsync no --schema "$plain"
	a=127.0.0.1:$port apid=$pid
	start_counterd "window$1" --appendfsync no --schema "$window"
	b=127.0.0.1:$port bpid=$pid
	echo "== $1 posts, 50 connections, 64 deep"
	adds --posts "$1" --warm "$WARM" --count "$COUNT" --rounds "$ROUNDS" --case "plain=$a,plain,$apid" --case "window=$b,plain,$bpid" \
		--case "CLIENT IDMP=$a,connection,$apid" --case "IDMP=$a,arguments,$apid"
	kill "$apid" "$bpid"
	wait "$apid" "$bpid" || true
}

# refs SCHEMA FORM N sets refs to the instructions of a server that starts and executes so many INCRs of 5,000 posts behind the first ones.
refs() {
	start_counted "$COUNTERD_BIN" "$1"
	adds --posts 5000 --warm "$WARM" --rounds 1 --clients 4 --count "$3" --case "counted=127.0.0.1:$port,$2,$pid" >/dev/null
	end_counted
}

counts() {
	local name schema form few n=100000 base=
	echo
	echo '| instructions of an INCR, 64 deep, 5,000 posts | | times plain |'
	echo '|---|---|---|'
	while read -r schema form name; do
		refs "$schema" "$form" 6400
		few=$refs
		refs "$schema" "$form" $((6400 + n))
		refs=$(((refs - few) / n)) base=${base:-$refs}
		echo "| $name | $refs | $(awk "BEGIN { printf \"%.2f\", $refs / ${base:-$refs} }") |"
	done <<-END
		$plain plain plain
		$window plain window
		$plain connection CLIENT IDMP
		$plain arguments IDMP
	END
}

if [ "$TIMES" != no ]; then for posts in $POSTS; do times "$posts"; done; fi
if [ "$COUNTS" = no ]; then :
elif command -v valgrind >/dev/null; then counts
else echo 'LEFT OUT: instructions: install valgrind to count them'; fi
