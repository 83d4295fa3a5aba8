// Package reference holds the tests that make the pages in docs/reference from the tables of the server: settings (package
// config), commands (COMMAND DOCS and COMMAND INFO of a running server), and errors (package errclass). The tests fail when
// a page is not current; make reference writes the pages.
//
// # Files
//
//	reference_test.go  the server under test, and the pages of settings and errors
//	commands_test.go   the page of commands: what the server says of them
//	counterctl_test.go the page of counterctl: its help
//	reply_test.go      replies in the form in which redis-cli prints them
//	extras_test.go     what the server does not say of its commands: replies, errors, differences from Redis, examples
package reference
