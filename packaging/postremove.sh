#!/bin/sh
# Runs after the removal of a package. It always keeps the data: only the operator deletes it.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
if [ "$1" = purge ] && [ -d /var/lib/counterd ]; then
	echo "the data in /var/lib/counterd is kept: delete it yourself if it is not wanted any more"
fi
