#!/bin/sh
# Writes the settings of a node of mode replication to $RUN, and whom it follows when it starts. Sentinel knows the primary.
# Where Sentinel is absent or does not answer, a node with data keeps the role that it had, which is in its data, and a node
# without data follows a primary that runs. Only the first node may begin as a primary, and only while no replica has data:
# otherwise its emptiness would replace that data.
set -eu
cp "$CONF/counterd.conf" "$RUN/counterd.conf"

follow() {
	if [ "$1" = "$SELF" ]; then echo "this node is the primary"; else
		echo "this node follows $1"
		echo "replicaof $1 $PORT" >>"$RUN/counterd.conf"
	fi
	exit 0
}
ask() { timeout 5 redis-cli "$@" 2>/dev/null || true; }

if [ -n "${SENTINEL:-}" ]; then
	primary=$(ask -h "$SENTINEL" -p 26379 sentinel get-master-addr-by-name "$SENTINEL_NAME" | head -n 1)
	case $primary in "" | *" "*) echo "Sentinel names no primary" ;; *) follow "$primary" ;; esac
fi
if [ -n "$(find "$DATA" -type f ! -name LOCK 2>/dev/null | head -n 1)" ]; then
	echo "this node keeps the role that it had"
	exit 0
fi
replicas=0
for peer in $PEERS; do
	[ "$peer" != "$SELF" ] || continue
	role=$(ask -h "$peer" -p "$PORT" role | head -n 1)
	case $role in
	master) follow "$peer" ;;
	slave) if [ "$(ask -h "$peer" -p "$PORT" dbsize)" != 0 ]; then replicas=$((replicas + 1)); fi ;;
	esac
done
if [ "$FIRST" != "$SELF" ]; then follow "$FIRST"; fi
if [ "$replicas" != 0 ]; then
	echo "this node has no data, other nodes are replicas with data, and none is a primary: make one of them the primary (REPLICAOF NO ONE)" >&2
	exit 1
fi
echo "this node begins as the primary"
