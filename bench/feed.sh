#!/usr/bin/env bash
# What the feed of changes costs: a server of its own, a client that increments and one that reads the feed, in turns without the reader. The server's
# processor time of an INCR without the feed, with it, and of a change; and at RATE INCRs a second how late the changes arrive.
#
#   POSTS  incremented (300,000)   COUNT  INCRs of a phase at full speed (1,000,000)   RATE  of a paced phase (100,000)
#   DURATION  of a paced phase (5s)   ROUNDS (5)   DEPTH  INCRs in a batch (64)   FSYNC  appendfsync (everysec)
#
# On a busy machine, chrt -f 20 make bench-feed has both programs run before all others.
. "$(dirname "$0")/lib.sh"
start_counterd feed --appendfsync "${FSYNC:-everysec}"
"$BIN/counterbench" feed --server "127.0.0.1:$port" --server-pid "$pid" --posts "${POSTS:-300000}" --count "${COUNT:-1000000}" --rate "${RATE:-100000}" \
	--duration "${DURATION:-5s}" --rounds "${ROUNDS:-5}" --depth "${DEPTH:-64}"
