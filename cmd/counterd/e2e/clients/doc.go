// Package clients tests the built counterd binary with Go clients that nothing else here needs. It is a module of its own,
// so that theirs are no dependencies of counterd's. It holds tests only.
package clients
