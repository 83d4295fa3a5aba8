// Command counterctl administers counterd. Its commands are about a running node (ping, drain, find, top, diff), a data
// directory (check, dump, repair), backups (backup, backups, restore, drill, prune), moving data (import, export, feed, build), or
// a cluster (cluster create, status, check, ...). counterctl --help lists them.
//
// check, dump and restore only read a data directory, and work while a server has it open. repair needs it alone. Instead of
// a directory they take an archive, which redis-cli --rdb downloads: a snapshot with the log behind it in one file.
//
// Exit status: 0 if all is well, 1 if the work failed or found something wrong, 2 for a command line that is not understood.
//
// # Files
//
//	main.go                              commands, help, exit status
//	moment.go                            a log offset or a time
//	ping.go drain.go diff.go find.go     a running node, or two
//	check.go repair.go restore.go        a data directory
//	dump.go dump_files.go dump_log.go    its contents as text: sections and filters, files, log
//	dump_commands.go                     its contents as commands
//	names.go                             names of counters and columns by id
//	backup.go                            backups and drills; package backup has the place
//	build.go                             files of posts to a directory; package bulk reads and sorts them
//	import.go import_report.go           posts from elsewhere; what is said of it
//	follow.go                            following a Redis; its snapshots
//	export.go                            posts as files
//	feed.go cursors.go                   every change to a file, a stream or a service; package feed does it
package main
