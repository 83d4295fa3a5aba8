#!/bin/sh
# Starts a Sentinel. Its settings are in its volume, because it writes what it learns into them.
set -eu
conf=/data/sentinel.conf
if [ ! -e "$conf" ]; then
	primary=$(timeout 5 redis-cli -h "$SENTINEL" -p 26379 sentinel get-master-addr-by-name "$SENTINEL_NAME" 2>/dev/null | head -n 1)
	case $primary in "" | *" "*) primary=$FIRST ;; esac
	password=$(printf %s "${REDISCLI_AUTH:-}" | sed 's/["\\]/\\&/g')
	{
		echo "port 26379"
		echo "dir /data"
		echo "sentinel resolve-hostnames yes"
		echo "sentinel announce-hostnames yes"
		echo "sentinel announce-ip $SELF"
		echo "sentinel monitor $SENTINEL_NAME $primary $PORT $QUORUM"
		echo "sentinel down-after-milliseconds $SENTINEL_NAME $DOWN_AFTER"
		echo "sentinel failover-timeout $SENTINEL_NAME $FAILOVER_TIMEOUT"
		if [ -n "$password" ]; then
			echo "requirepass \"$password\""
			echo "sentinel sentinel-pass \"$password\""
			echo "sentinel auth-pass $SENTINEL_NAME \"$password\""
		fi
	} >"$conf.new"
	mv "$conf.new" "$conf"
fi
exec redis-sentinel "$conf"
