// Package serving is this node's part in a cluster: the hash slots that it serves, the commands that it takes, and its
// agents. A standalone server has no Member.
//
// # Files
//
//	member.go    a node of a cluster: what it serves now, and how that changes
//	standing.go  what a node serves, with what every command asks of it
//	routing.go   which commands a node takes, and where the others go: package route's words
//	host.go      the node as package cluster sees it: roles, acknowledgements, what is served
//	join.go      what takes part in the cluster: the agent, the mover, the registry
//	help.go      when a node with a damaged directory may set its files aside
//	mover.go     the node as package move sees it
//	commands.go  CLUSTER, READONLY, READWRITE, ASKING; movecommand.go: COUNTER.MOVE
//	schema.go    the schema of a cluster: one text in etcd
package serving
