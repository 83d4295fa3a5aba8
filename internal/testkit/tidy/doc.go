// Package tidy checks the text of the whole tree against the rules of this project: which package may import which, how long
// a file may be, which words are retired. It parses every Go file once and compiles nothing, so all rules together take a few
// seconds. The test TestTidy in cmd/counterd runs them.
//
// A rule that today's code breaks has rows in breakers.txt, with a number each. A number may only fall.
//
// # Files
//
//	tidy.go       the list of rules, and the purpose of each
//	tree.go       the parsed tree
//	floors.go     imports go down; borders; pure packages
//	testkit.go    packages and exported names that only tests use
//	sizes.go      files of a package, lines of a file, methods of a type
//	breakers.go   the rows of breakers.txt
//	methods.go    methods of a type, those of embedded types included
//	lists.go      "# Files" in doc.go
//	comments.go   files, tests and members that a comment names
//	ledgers.go    tests that the tables of faults name
//	scenarios.go  which file of the code a file of tests belongs to
//	words.go      retired words; files with the name of a package
//	riddles.go    clauses of comments without a noun: who, what, one that
//	clocks.go     ages are measured by the monotonic clock
//	race.go       tests that the race detector's run leaves out
//	seams.go      tests assign to no variable of a package
package tidy
