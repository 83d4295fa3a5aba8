#!/usr/bin/env bash
# Very many posts on one machine: a directory of them is built (counterbench build), a counterd opens it, and what that costs is asked: bytes on disk
# and in memory, the time of a start, pages and increments of recent posts and of old ones, reads of the disk, snapshot, scrub, and what increments
# spread over all old posts lead to. Results are appended to OUT/huge.json (counterbench page shows them) and printed as Markdown at the end.
#
#   POSTS      posts (1,000,000,000)                    MAXMEMORY  of the server (2gb)          HOT  of it for the newest posts at the start (64mb)
#   HUGE_DIR   a directory that counterbench build made of as many posts, which is used and changed; empty: one is built, and removed at the end
#   DURATION   of each workload (10s)                   CLIENTS    connections (16)             DEPTH  of increments (16)
#   SCRUB      seconds that a scrub is watched (20)     LATE       increments a second that are spread over all posts (20,000)
#   OUT        directory for the results                TMPDIR     where the directory is built: 3 bytes a post, as much again while it is changed
# As root the kernel's cache is dropped before the start and before old posts are read; else the results are of the cache, and say so.
. "$(dirname "$0")/lib.sh"
POSTS=${POSTS:-1000000000} MAXMEMORY=${MAXMEMORY:-2gb} HOT=${HOT:-64mb} HUGE_DIR=${HUGE_DIR:-} DURATION=${DURATION:-10s} CLIENTS=${CLIENTS:-16} DEPTH=${DEPTH:-16}
SCRUB=${SCRUB:-20} LATE=${LATE:-20000} OUT=${OUT:-$dir/out}
mkdir -p "$OUT"
out=$OUT/huge.json
rm -f "$out"
case_="$(sed ':a;s/\B[0-9]\{3\}\>/,&/;ta' <<<"$POSTS") posts"

# record NAME UNIT VALUE [GOAL [NOTE]]
record() {
	printf '%-46s %s %s%s\n' "$1" "$3" "$2" "${4:+ (goal $4)}"
	"$BIN/counterbench" record "$out" --section 'Very large' --name "$1" --case "$case_" --unit "$2" --goal "${4:-}" --note "${5:-}" -- "$3"
}
calc() { awk "BEGIN {printf \"%.${2:-3}f\", $1}"; }
now() { date +%s.%N; }
# field SECTION NAME is a number of INFO.
field() { info "$port" "$1" | awk -F: -v n="$2" '$1 == n {print $2}'; }
rss() { awk '/^VmRSS/ {print $2 * 1024}' "/proc/$pid/status"; }
# anon is the resident memory that is not of mapped files, which the kernel may take back at any time.
anon() { awk '/^RssAnon/ {print $2 * 1024}' "/proc/$pid/status"; }
disk_read() { awk '/^read_bytes/ {print $2}' "/proc/$pid/io"; }
disk_written() { awk '/^write_bytes/ {print $2}' "/proc/$pid/io"; }
calls() { info "$port" commandstats | awk -F'[=,]' -v c="cmdstat_$1:calls" '$1 == c {print $2}'; }
# ask WORDS... sends a command and prints the first line of the answer.
ask() {
	local line=
	exec 7<>"/dev/tcp/127.0.0.1/$port"
	printf '%s\r\n' "$*" >&7
	IFS= read -r -t 600 line <&7 || true
	exec 7>&- 7<&-
	echo "${line%$'\r'}"
}
dropped=" (kernel's cache as it was: dropping it wants root)"
drop() {
	sync
	if (echo 1 >/proc/sys/vm/drop_caches) 2>/dev/null; then dropped=; fi
}
run() { "$BIN/counterbench" run --built --server "127.0.0.1:$port" --posts "$POSTS" --clients "$CLIENTS" --duration "$DURATION" --slices 1 --warmup 0s --progress=false "$@" >"$dir/run.log" ||
	fail "$(cat "$dir/run.log")"; }
# p50 FILE prints the median latency of the only workload in a file, in ms.
p50() { awk '/^latency/ {getline; for (i = 3; i <= NF; i++) if ($i ~ /^(ns|us|ms|s)$/) {n++; if (n == 2) {f = $i == "ns" ? 1e-6 : $i == "us" ? 1e-3 : $i == "ms" ? 1 : 1000; printf "%.4f", $(i-1) * f; exit}}}' "$1"; }

# --- build
data=$HUGE_DIR
if [ -z "$data" ]; then
	data=$dir/huge
	free=$(df -B1 --output=avail "$dir" | tail -n 1)
	[ "$free" -ge $((POSTS * 3)) ] || fail "$dir has $((free >> 20)) MiB free; $POSTS posts want $((POSTS * 3 >> 20)) MiB: TMPDIR= names another place, POSTS= fewer"
	echo "== building $case_"
	"$BIN/counterbench" build --posts "$POSTS" --out "$data" --hot "$HOT" | tee "$dir/build.log"
	record 'built' 'M posts/s' "$(awk '/M posts\/s/ {for (i = 1; i <= NF; i++) if ($i == "M") print $(i - 1); exit}' "$dir/build.log")" '' "counterbench build, $(nproc) processors"
fi
[ -d "$data/cold" ] || fail "$data is no directory that was built"
echo "== $case_ in $data"
cold_bytes=$(du -sb --apparent-size "$data/cold" | cut -f 1)
all_bytes=$(du -sb --apparent-size "$data/cold" "$data/rdb" | awk '{s += $1} END {print s}')
record 'disk, all' 'bytes a post' "$(calc "$all_bytes / $POSTS")"

# --- start
drop
freeport
# Files are many: as many descriptors as may be had.
ulimit -n "$(ulimit -Hn)"
began=$(now)
"$COUNTERD_BIN" --loglevel warning --port "$port" --dir "$data" --maxmemory "$MAXMEMORY" >"$dir/huge.log" 2>&1 &
pid=$!
pids+=("$pid")
until answers "$port"; do
	kill -0 "$pid" 2>/dev/null || fail "counterd ended: $(tail -n 3 "$dir/huge.log")"
	sleep 0.05
done
record 'start' s "$(calc "$(now) - $began" 2)" '<= 10' "from exec to PONG, --maxmemory $MAXMEMORY$dropped"
items=$(field tiers cold_items)
[ "${items:-0}" -gt 0 ] || fail "no posts are in files"
record 'disk, posts in files' 'bytes a post' "$(calc "$cold_bytes / $items")" '<= 2.2'
record 'memory of a post in a file, indexes' 'bytes a post' "$(calc "$(field tiers cold_index_bytes) / $items" 4)" '<= 0.02' 'INFO tiers cold_index_bytes'
record 'memory of a post in a file, all' 'bytes a post' "$(calc "($(anon) - $(field tiers hot_bytes)) / $items" 4)" '' 'anonymous resident memory without that of posts in memory, the program included'
record 'files' files "$(field tiers cold_blocks)"
record 'resident after the start' MiB "$(calc "$(rss) / 1048576" 0)"

# --- reads
run --depth 1 --workloads timeline
record 'page of 20 recent posts, median' ms "$(p50 "$dir/run.log")"
drop
reads=$(disk_read) pages=$(calls counter.mget) seen=$(field tiers page_reads)
run --depth 1 --workloads cold
record 'page of 20 old posts, median' ms "$(p50 "$dir/run.log")" '' "$CLIENTS connections, one page each at a time$dropped"
posts=$((20 * ($(calls counter.mget) - ${pages:-0})))
record 'reads of the disk for an old post' 'reads of 4 KiB' "$(calc "($(disk_read) - $reads) / 4096 / $posts")" '<= 1.05' "bytes that /proc/PID/io counts as read, of $posts posts$dropped"
record 'pages taken from files for an old post' 'pages' "$(calc "($(field tiers page_reads) - $seen) / $posts")" '' 'INFO tiers page_reads'

# --- increments
run --depth "$DEPTH" --workloads incr
record 'INCR of recent posts, median' ms "$(p50 "$dir/run.log")" '' "$DEPTH deep"
before=$(field tiers overlay_items) bytes=$(field tiers overlay_bytes)
run --depth "$DEPTH" --workloads incr --uniform --rate "$LATE"
record 'INCR of old posts, median' ms "$(p50 "$dir/run.log")" '' "$LATE a second, spread over all posts"
changed=$(($(field tiers overlay_items) - before))
grown=$(($(field tiers overlay_bytes) - bytes))
if [ "$changed" -gt 0 ] && [ "$grown" -gt 0 ]; then
	record 'memory of a changed old post' 'bytes a post' "$(calc "$grown / $changed" 1)" '' "overlays after $changed of them"
else # of few posts: their files were written anew, or came back into memory, meanwhile
	echo 'memory of a changed old post: overlays did not grow'
fi

# --- what late increments lead to: files written again
wrote=$(disk_written) rewrites=$(field tiers rewrites) began=$(now)
for i in 1 2 3 4 5; do # of five ranges, a fifth of all apart
	mid=$((3000000000000000 + POSTS * 4000 / 10 * (2 * i - 1)))
	ask COUNTER.DEMOTE weibo "$mid" >/dev/null
done
n=$(($(field tiers rewrites) - rewrites))
if [ "$n" -gt 0 ]; then
	each=$((items / $(field tiers cold_blocks)))
	record 'rewrite of a file' s "$(calc "($(now) - $began) / $n")" '' "$n of about $each posts each"
	record 'written for it' MiB "$(calc "($(disk_written) - $wrote) / $n / 1048576" 2)"
	# A range is written again when a sixteenth of its posts were changed.
	record 'written for a late increment, at rest' bytes "$(calc "($(disk_written) - $wrote) / $n / ($each / 16.0)" 1)" '' 'if each is of another post: a file is written again when a sixteenth of its posts were changed'
fi

# --- snapshot, scrub
saves=$(field persistence rdb_saves) began=$(now)
ask SAVE >/dev/null
record 'snapshot' s "$(calc "$(now) - $began" 2)" '' 'SAVE after the increments'
record 'manifest' MiB "$(calc "$(stat -c %s "$(ls -t "$data"/MANIFEST-* | head -n 1)") / 1048576" 2)"
scrubbed=$(field tiers scrubbed_files)
if [[ $(ask COUNTER.SCRUB) != -* ]]; then
	began=$(now)
	while [ "$(field tiers scrub_in_progress)" = 1 ] && [ "$(calc "$(now) - $began" 0)" -lt "$SCRUB" ]; do sleep 0.2; done
	took=$(calc "$(now) - $began") files=$(($(field tiers scrubbed_files) - scrubbed))
	[ "$files" -eq 0 ] || record 'scrub of all files' s "$(calc "$took * $(field tiers cold_blocks) / $files" 0)" '' "computed of $files files in $took s, at its own pace"
fi
record 'resident at the end' MiB "$(calc "$(rss) / 1048576" 0)" '' "--maxmemory $MAXMEMORY"
began=$(now)
kill "$pid"
wait "$pid" || true
record 'shutdown' s "$(calc "$(now) - $began" 2)"

echo
echo "== for docs/internals/performance.md; measurements: $out"
"$BIN/counterbench" markdown "$out"
