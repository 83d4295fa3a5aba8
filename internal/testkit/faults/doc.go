// Command faults runs the tests that find a known fault again. faults.tsv is the ledger: one row for each fault that was found, with
// what users saw, the cause, the commit of the mend and the names of the tests.
//
//	make fault N=17           run the tests of fault 17: they pass, because the fault is mended
//	make fault N=17 BREAK=1   reverse the mend: a test must fail
//	make faults               run the tests of all faults, and print a table
//	make faults BREAK=1       reverse each mend that has a patch, one at a time
//
// Reversals of functions are compiled together, and none changes a file (package weave). Others are made in a temporary copy. Results are
// kept with the state of the tree, so that the run of all reversals, which takes an hour, can be interrupted and resumed.
//
// A patch in breaks/ reverses one mend. It is a unified diff; the line numbers are ignored, so that it still applies when other code
// of the file changes or when the code moves to another file.
//
// pairs.tsv is the matrix of mechanisms: which tests have two of them at work at once. docs/internals/faults.md and
// docs/internals/pairs.md are generated from the tables by make reference.
//
// # Files
//
//	main.go               flags, and the tests of faults with their mends
//	table.go page.go      the ledger and its page
//	tests.go              test functions by their names
//	patch.go              patches, which are applied by their text
//	reversal.go woven.go  reversals, in a copy and compiled together
//	record.go             results of reversals, kept for the next run
//	planted.go wanted.go  planted faults, for the simulation, and which of them a run plants
//	pairs.go              the matrix of mechanisms
package main
