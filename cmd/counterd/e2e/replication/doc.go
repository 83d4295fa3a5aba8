// Package replication tests replicas: roles and FAILOVER compared with a pair of redis-servers, cuts, restarts, and a primary that
// lost the end of its log.
package replication
