// Package config is how a node is set up: the settings that redis.conf, the command line and CONFIG name. It knows
// nothing of connections.
//
// # One row a setting
//
// All that there is to know of a setting stands in one row of a table (settings.go), and everything else is made from
// it:
//
//	the flag            Flags       in the order of the table, with the row's help
//	the file            Load        redis.conf's syntax; the command line wins
//	CONFIG GET          Each        sorted by name
//	CONFIG SET          Live.Set    all or none, and only what may change while the server runs
//	CONFIG REWRITE      Rewrite     lines are changed in their place, comments stay
//	what logs may show  Secret
//
// A row says where in Config its value lies, and of which kind it is (kind.go). A flag and CONFIG SET read the same
// text in two ways where Redis's words are expected of one of them: --protected-mode takes true too, and CONFIG SET
// answers what redis-cli's users know.
//
// Redis renamed what had "slave" in its name. The old names are read everywhere, CONFIG GET answers both, and CONFIG
// REWRITE writes the new ones.
//
// Settings of Redis that have no meaning here are passed over in a file (foreign.go), so that a redis.conf starts a
// server. What others may rely on is refused: a server that passed it over would not be the one that was asked for.
//
// # Files
//
//	config.go                      Config, its defaults and what is valid
//	replication.go cluster.go      its parts
//	acl.go tls.go web.go
//	settings.go kind.go            the table; how a value becomes a flag and a text
//	flags.go load.go file.go       the command line; the file, and how it is written again
//	foreign.go memoryonly.go       Redis's settings that may be passed over; appendonly no
//	live.go                        the configuration in force
//	outputlimits.go clientslimit.go  values with a syntax of their own
package config
