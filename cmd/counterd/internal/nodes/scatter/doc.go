// Package scatter executes the commands of a connection that are not one node's alone: a timeline page whose posts several
// shards of a cluster have, an answer for all posts, and on a forward port every command on posts.
//
// A connection to a node of a cluster has a Scatter; a standalone server has none. The connection hands it the commands
// that it may take (Plan, AskAll, Exec), and the Scatter plans what is this node's through Conn and asks package gather's
// links for the rest. Finish waits for the other shards and puts their replies where they belong.
//
// # Files
//
//	conn.go          what a Scatter sees of its connection, and of a transaction
//	scatter.go       how a command is planned: what is this node's, and what other shards'
//	page.go          how a page is planned
//	series.go        how neighbouring commands of one name, with one key each, are planned together
//	wait.go          how the replies of other shards are waited for, and what is asked again
//	errors.go        which errors of other shards are asked again, and which a client gets
//	answer.go        how replies are put into their places
//	exec.go          transactions on a forward port, and which commands are not to be had there
//	all.go merge.go  answers for all posts: each shard is asked, and one answer is made of theirs
//	change.go        changes of all posts
package scatter
