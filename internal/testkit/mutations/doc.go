// Command mutations plants mistakes in the engine, the log, replication and the cluster, one at a time, and runs the tests that
// must find each. mutations.tsv is the table: one row for each mistake, chosen by hand where it would hurt.
//
//	make mutants              all of them
//	make mutants N=17         one
//	make mutants ONLY=repl    those of files whose path contains a word
//
// No file is changed: package weave compiles all of them together. A mistake that no test finds is either
// equivalent, because no user and no later code can tell the difference, which the row says with the reason; or it shows a hole
// in the tests.
//
// The old text of a row stands exactly once in its function, which a test of the normal suite checks, so that no row goes stale.
package main
