// Package migration tests what moves data in and out: counterctl import, follow, export and build, and redis-cli --rdb.
//
// # Files
//
//	import_test.go import_file_test.go main_test.go  imports of keys of every shape, and of files
//	import_restart_test.go                  imports that are killed, with their target and their source
//	import_beside_test.go                   an import beside failovers, full copies and backups
//	feed_tools_test.go                      a feed of a built directory, beside an import, and behind a backup
//	import_hurt_test.go                     an import into a server that loses acknowledged changes, is flushed, or has a full disk
//	follow_test.go                          a redis-server that is followed
//	download_test.go export_test.go         exports and downloads
//	feed_test.go                            counterctl feed: each kind of sink, killed together with the node and the tool; exports with a position
//	feed_old_test.go                        old values in the feed, for counterctl feed and dump
//	windows_test.go                         tools beside a column that counts in a window of time
//	built_test.go                           directories that counterctl build makes
package migration
