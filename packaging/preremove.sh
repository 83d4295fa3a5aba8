#!/bin/sh
# Before a package is removed; an upgrade (Debian: upgrade, RPM: 1) leaves the server running.
set -e
case "$1" in
upgrade | 1) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
	systemctl disable --now counterd || true
fi
