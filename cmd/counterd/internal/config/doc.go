// Package config is how a node is set up: the settings that redis.conf, the command line and CONFIG name. It knows
// nothing of connections.
//
// # One row a setting
//
// One row of a table (settings.go) has all facts about a setting. Everything else is made from it:
//
//	the flag            Flags       in the order of the table
//	--help              Help        by section, with the row's text, default and valid values
//	the reference page  Describe    docs/reference/settings.md
//	the file            Load        redis.conf's syntax; the command line takes precedence
//	validation          Validate    ranges and choices of the rows, then rules across settings
//	CONFIG GET          Each        sorted by name
//	CONFIG SET          Live.Set    all or none, and only settings that may change while the server runs
//	CONFIG REWRITE      Rewrite     lines are changed in their place, comments stay
//	secrets             Secret      logs never show these values
//
// A row says where in Config its value lies, and of which kind it is (kind.go). A flag and CONFIG SET parse the same text
// in two ways where one of them must keep Redis's words: --protected-mode accepts true too, and CONFIG SET returns the
// errors that users of redis-cli know.
//
// Redis renamed the settings that had "slave" in their names. The old names are accepted everywhere, CONFIG GET returns
// both, and CONFIG REWRITE writes the new ones.
//
// Settings of Redis that have no meaning here are ignored in a file (foreign.go), so that a redis.conf starts a server. A
// setting that changes what clients see is refused instead: a server that ignored it would not be the one that the file
// describes.
//
// # Files
//
//	config.go                        Config, its defaults, and validation
//	replication.go cluster.go        parts of Config
//	acl.go tls.go web.go
//	settings.go kind.go              the table and its sections; how a value becomes a flag and a text
//	rowsnet.go rowsdata.go           the rows: network, TLS, users, limits; persistence, memory, IDMP, monitoring
//	rowsnodes.go                     the rows: replication, cluster
//	describe.go                      --help, and the settings for documentation
//	flags.go load.go file.go         the command line; the file, and how it is written again
//	foreign.go memoryonly.go         settings of Redis that may be ignored; appendonly no
//	dir.go                           the data directory before the start
//	live.go                          the configuration in force
//	outputlimits.go clientslimit.go  values with a syntax of their own
package config
