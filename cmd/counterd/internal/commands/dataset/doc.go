// Package dataset has the commands on all that a store holds: its schema, its blocks and the tiers they are in, walks
// over all items, their number and their sum. Commands on single items are package items'; package counter defines the
// fields of COUNTER.BLOCKS and the sum of a digest.
//
// These commands are not planned. Each opens a batch of its own (Conn.WithStore), exclusive where it changes what keys
// mean or removes all, and its reply waits for the log as those of planned commands do. Within EXEC they work in the
// batch of the transaction. COUNTER.DEMOTE and COUNTER.PROMOTE change where items are kept and not what they are: they
// are each node's own, and not in the log.
//
//	conn.go commands.go    what handlers see of a connection; rows of the command table
//	schema.go              ADD, DROP, SCHEMA
//	scan.go                SCAN, DBSIZE, FLUSHALL
//	droprange.go           COUNTER.DROPRANGE
//	blocks.go              COUNTER.BLOCKS, COUNTER.DEMOTE, COUNTER.PROMOTE, COUNTER.SCRUB, MEMORY USAGE
//	digest.go              COUNTER.DIGEST
//
// It has no locks and no state.
package dataset
