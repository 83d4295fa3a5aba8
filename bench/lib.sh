# What the scripts here share: servers of their own on free ports of 127.0.0.1, in a directory that goes with them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
me=$(basename "$0" .sh)
fail() { echo "$me: $*" >&2; exit 1; }
# BIN is where the programs are, COUNTERD_BIN another counterd to measure. WARMUP goes before each workload, not counted.
BIN=${BIN:-bin} WARMUP=${WARMUP:-1s}
COUNTERD_BIN=${COUNTERD_BIN:-$BIN/counterd}
[ -x "$COUNTERD_BIN" ] && [ -x "$BIN/counterbench" ] || fail "$COUNTERD_BIN and $BIN/counterbench are not there: make build"
dir=$(mktemp -d "${TMPDIR:-/tmp}/counterd-bench.XXXXXX")
pids=()
cleanup() {
	for p in "${pids[@]}"; do kill "$p" 2>/dev/null || true; done
	wait 2>/dev/null || true
	rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# answers PORT: a server there has loaded its data; while it loads it answers -LOADING.
answers() {
	local reply=
	{ exec 9<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null || return 1
	printf 'PING\r\n' >&9
	IFS= read -r -t 1 reply <&9 || true
	exec 9>&- 9<&-
	[[ $reply == +PONG* ]]
}

# freeport sets port to one at which nothing answers.
next=$((20000 + RANDOM % 10000))
freeport() {
	while (exec 9<>"/dev/tcp/127.0.0.1/$next") 2>/dev/null; do next=$((next + 1)); done
	port=$next
	next=$((next + 1))
}

# start NAME COMMAND... starts a server, to which its port and directory are given, and waits for it; port is its port and pid its
# process. Pogocache and bench/floor have no directory.
# CPUS, where set, are the processors it runs on from its start: a program that counts them then counts these.
start() {
	local name=$1 pin=()
	shift
	freeport
	mkdir -p "$dir/$name"
	if [ -n "${CPUS:-}" ] && command -v taskset >/dev/null; then pin=(taskset -c "$CPUS"); fi
	local place=(--port "$port" --dir "$dir/$name")
	case $(basename "$1") in
	pogocache*) place=(-p "$port") ;;
	floor) place=(-port "$port") ;;
	esac
	"${pin[@]}" "$@" "${place[@]}" >"$dir/$name.log" 2>&1 &
	pid=$!
	pids+=("$pid")
	for _ in $(seq "${PATIENCE:-300}"); do # tenths of a second
		if answers "$port"; then return; fi
		kill -0 "$pid" 2>/dev/null || fail "$1 ended: $(tail -n 3 "$dir/$name.log")"
		sleep 0.1
	done
	fail "$1 does not answer on port $port: $(tail -n 3 "$dir/$name.log")"
}

# start_counterd NAME FLAGS...; the log is synced each second unless the flags say otherwise.
start_counterd() { local name=$1; shift; start "$name" "$COUNTERD_BIN" --loglevel warning --maxclients 12000 "$@"; }

# start_counted BIN SCHEMA starts a counterd whose instructions valgrind counts; end_counted ends it, and sets refs to their number.
start_counted() {
	rm -rf "$dir/counted" "$dir/counted.out"
	# Valgrind 3.19 does not know the instruction rdtscp.
	PATIENCE=3000 GODEBUG=cpu.rdtscp=off GOMAXPROCS=1 GOGC=off CPUS='' start counted valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file="$dir/counted.out" \
		"$1" --schema "$2" --appendfsync no --loglevel warning
}

end_counted() {
	kill "$pid"
	wait "$pid" || true
	refs=$(awk '/^summary:/ { print $2 }' "$dir/counted.out")
}

# start_peer NAME FLAGS...: the program PEER_BIN, redis-server where it is not set, with the same durability. Pogocache has no log: it
# is started with one thread for each processor that it may use, and keeps its data in memory only.
start_peer() {
	local bin=${PEER_BIN:-redis-server} name=$1
	shift
	command -v "$bin" >/dev/null || fail "$bin is not there: install redis-server, or name another program (PEER_BIN=valkey-server)"
	if [[ $(basename "$bin") == pogocache* ]]; then
		local threads
		threads=$(if [ -n "${CPUS:-}" ]; then taskset -c "$CPUS" nproc; else nproc; fi)
		start "$name" "$bin" -h 127.0.0.1 --threads "$threads" --maxconns 12000
	elif [[ $(basename "$bin") == floor ]]; then
		start "$name" "$bin"
	else
		start "$name" "$bin" --bind 127.0.0.1 --appendonly yes --appendfsync everysec --save '' --maxclients 12000 --loglevel warning "$@"
	fi
}

# info PORT SECTION prints that section of a server's INFO.
info() {
	exec 8<>"/dev/tcp/127.0.0.1/$1"
	printf 'INFO %s\r\nQUIT\r\n' "$2" >&8
	timeout 10 cat <&8 | tr -d '\r' | grep : || true
	exec 8>&- 8<&-
}

# memory PID prints the resident MiB of a process.
memory() { awk '/^VmRSS/ {printf "%.0f MiB", $2 / 1024}' "/proc/$1/status"; }
