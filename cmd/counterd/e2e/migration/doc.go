// Package migration tests what moves data in and out: counterctl import, follow, export and build, and redis-cli --rdb.
package migration
