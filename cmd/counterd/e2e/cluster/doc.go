// Package cluster tests a cluster with real etcd: nodes, moves of hash slots, backups, and faults again and again.
//
// # Files
//
//	harness_test.go main_test.go            etcd and nodes, each in a network of its own or not
//	chaos_test.go faults_test.go moves_test.go  faults again and again; the kinds of faults; moves of groups
//	clocks_test.go                          clocks of nodes are set
//	writers_test.go forwardwriter_test.go   clients that note their answers
//	far_test.go etcdtls_test.go             etcd that is far away, and by TLS with users
//	moveload_test.go                        a move under the highest load
//	movetime_test.go                        a move to nodes whose clocks are days ahead
//	forward_test.go                         forward ports while groups move and primaries are killed
//	check_test.go                           the check of the clients' posts
//	heal_test.go lostend_test.go            damaged directories, one or all at once; one beside a loss of power
//	backup_test.go lost_test.go             backups, and a cluster that is lost and restored
//	restore_test.go                         a restore of columns that count in windows, and that decay
//	import_test.go                          imports beside moves, failovers and kills
//	feed_test.go                            consumers of the feed beside moves, failovers and kills
//	feed_copy_test.go                       a consumer of the feed behind a full copy and a failover
//	windows_test.go                         a column that counts in a window of time beside moves, failovers and kills
//	tools_test.go                           backups beside moves, failovers and kills
package cluster
