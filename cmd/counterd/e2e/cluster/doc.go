// Package cluster tests a cluster with real etcd: nodes, moves of hash slots, backups, and faults again and again.
package cluster
