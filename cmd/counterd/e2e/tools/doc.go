// Package tools tests what other programs do with counterd: redis-cli, redis-benchmark, packages, units, and the scripts of bench.
package tools
