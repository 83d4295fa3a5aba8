#!/bin/sh
# Behind the removal. The data stays, whatever is asked: it is the operator's to delete.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
if [ "$1" = purge ] && [ -d /var/lib/counterd ]; then
	echo "the data in /var/lib/counterd is kept: delete it yourself if it is not wanted any more"
fi
