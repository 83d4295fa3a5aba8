#!/usr/bin/env bash
# The client libraries of other languages that the matrix of clients is tested with (cmd/counterd/e2e/clients): Debian's
# packages where this is root on Debian, npm's where npm is. What cannot be had is left out by the tests, in words.
set -u
cd "$(dirname "$0")/../cmd/counterd/e2e/clients" || exit 1
want=
for package in python3-redis php-cli php-redis libhiredis-dev; do
	dpkg -s "$package" >/dev/null 2>&1 || want="$want $package"
done
if [ -n "$want" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	echo "setup: installing$want"
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive timeout 300 apt-get install -y -qq --no-install-recommends $want >/dev/null ||
		echo "setup: LEFT OUT: clients that need$want"
fi
if command -v npm >/dev/null && ! node -e "require('ioredis'); require('redis')" 2>/dev/null; then
	echo 'setup: installing ioredis and redis by npm'
	timeout 120 npm install --silent --no-save --no-package-lock --no-audit --no-fund --prefix . ioredis@6.0.0 redis@6.3.1 >/dev/null 2>&1 ||
		echo 'setup: LEFT OUT: ioredis and node-redis'
fi
exit 0
