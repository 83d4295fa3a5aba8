// Package replication tests replicas: roles and FAILOVER compared with a pair of redis-servers, cuts, restarts, and a primary that
// lost the end of its log.
//
// # Files
//
//	main_test.go                            the programs
//	failover_test.go                        roles and FAILOVER beside a pair of redis-servers
//	feed_copy_test.go                       a consumer of the feed behind a full copy and a failover
//	replica_cuts_test.go replica_tail_test.go  cut connections; a primary that lost the end of its log
//	soak_test.go soak_load_test.go soak_chores_test.go soak_slope_test.go  a pair under load for hours: clients, chores, growth
package replication
