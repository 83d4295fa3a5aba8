#!/bin/sh
# Runs after the installation of a package: makes the user and its directories, and tells systemd. It does not start the server,
# which the operator has to configure first.
set -e
if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers /usr/lib/sysusers.d/counterd.conf
elif ! getent passwd counterd >/dev/null; then
	getent group counterd >/dev/null || groupadd --system counterd
	useradd --system --gid counterd --home-dir /var/lib/counterd --no-create-home --shell /usr/sbin/nologin counterd
fi
install -d -o counterd -g counterd -m 0750 /var/lib/counterd
# Settings may hold passwords: the server alone reads and rewrites them.
chown counterd:counterd /etc/counterd /etc/counterd/counterd.conf
chmod 0750 /etc/counterd
chmod 0640 /etc/counterd/counterd.conf
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	if systemctl is-active --quiet counterd; then
		systemctl restart counterd
	fi
fi
