// Package docs is the documentation, and the tests that keep it true. CONTRIBUTING.md says how to write a page.
//
// # Files
//
//	doc.go  this text
//
// The tests are scenarios of their own, as there is no code beside them:
//
//	docs_test.go        which pages there are: the front page, the index, llms.txt
//	links_test.go       links, anchors, paths, names of tests and targets of make that pages mention exist
//	console_test.go     blocks that begin with a prompt are executed, and print what they show
//	words_test.go       options, commands and metrics that pages name exist; no word is retired
//	quickstart_test.go  the programs of docs/start/quickstart run
package docs
