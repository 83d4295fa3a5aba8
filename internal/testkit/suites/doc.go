// Command suites runs the test suites of other projects against counterd.
//
//	make suite-valkey VALKEY=~/src/valkey
//	go run ./internal/testkit/suites keymap --listen 127.0.0.1:7000 --server 127.0.0.1:6379
//
// It fetches nothing: --path names a checkout of the project. The suite of Valkey needs tclsh and runs in its external mode, in which it
// leaves out all tests that configure a server of their own.
//
// # Keys
//
// These suites use keys such as "foo" and "mycounter". keymap is a proxy that gives each key a post of its own ("{7}.n") and sends the
// command on. Which arguments are keys is what the server's own COMMAND says. Replies pass unchanged, so a test that reads names of keys
// from a reply fails. A command that is not an array of bulk strings passes unchanged too, because tests of the protocol send such.
//
// # What is left out
//
// counterd counts posts. It has no lists, no scripts, and its values are numbers, so most tests of a Redis suite cannot pass. The file
// valkey.tsv lists every test that does not pass, with the reason. A run fails if another test fails. --renew prints the lines that a
// run would need.
//
// # Files
//
//	main.go    the command
//	keymap.go  the proxy
//	names.go   names of keys and their posts
//	request.go the commands on the wire
//	tcl.go     runs a suite in Tcl, and reads its output
//	list.go    the tests that are left out
package main
