// Package cluster is the commands that make a cluster and look after it: counterctl cluster ...
//
// Each command reads the cluster's map in etcd, prints what it is going to do, asks, commits a change of the map, and waits
// until the nodes have done it. Work that was begun goes on if the command is interrupted, and the command can be repeated.
//
// # Files
//
//	session.go                      flags; reading and changing the map; waiting; asking people and nodes
//	create.go nodes.go              create; add, remove, failover and set
//	status.go lacking.go            status and check; nodes that lack acknowledged changes
//	moves.go moving.go              move and rebalance; what is moving
//	backup_command.go backup_taking.go  archives of all shards; one of them
//	backup_manifest.go              what a backup is of
//	restore.go write.go             a backup into an empty cluster; posts
//	giver.go derived_tally.go       the counts of derived columns, and the memory of numbered changes
package cluster

// Commands are the commands, in the order of their help.
var Commands = []command{createCommand, statusCommand, checkCommand, addCommand, removeCommand, failoverCommand, moveCommand, rebalanceCommand, setCommand,
	backupCommand, restoreCommand}
