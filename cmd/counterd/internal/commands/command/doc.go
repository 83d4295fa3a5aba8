// Package command is the table of commands: their names, arguments, rights and descriptions. It does not know how
// connections work.
//
// # One row a command
//
// A row is whole: arity, flags and keys, by which a command is checked; the handler; summary and syntax, which COMMAND
// DOCS tells; and how often it was called and how long that took. Everything else is made from the row, so that no
// other list names a command which is not there:
//
//	Table.Find, Row.Subcommand     the way of every command
//	Row.Plan or Row.Run            its handler: of a command on items, which sees an items.Call; of any other
//	COMMAND, INFO, LIST, GETKEYS   ReplyAll, ReplyInfo, ...: for programs
//	COMMAND DOCS                   ReplyDocs, with the arguments that ParseSyntax reads from Row.Syntax
//	ACL CAT, LATENCY               ReplyCategories, ReplyHistogram, ReplyDoctor
//	INFO commandstats              Row.Calls and what stands beside it
//
// Commands that are not planned see the connection, whose type C the table does not know. The rows themselves stand
// with the handlers: package server's table.go and the files it names.
//
// # Cost
//
// A command looks its row up when its name is another than that of the one before. A batch adds to the statistics of a
// row once for all neighbours of one kind: three atomic additions.
//
// # Files
//
//	row.go table.go                a command; all commands
//	said.go info.go                what COMMAND says beside the row, by rule; its replies
//	syntax.go docs.go              arguments; COMMAND DOCS
//	access.go askposts.go          what a command does to its keys, and to posts that are no keys, as far as rights go
//	confined.go                    what connections must not send that are for something else, or for reads only
//	hint.go                        what is added to errors: a command with a similar name, the syntax
//	instead.go                     commands of Redis that are not here, and what to use instead
//	times.go                       how long commands take; LATENCY
//	commands.go                    the rows of COMMAND and LATENCY; commands that only have subcommands
package command
