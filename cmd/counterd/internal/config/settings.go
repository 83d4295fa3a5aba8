package config

import (
	"slices"
	"strings"
)

// setting is one row: all facts about a setting. --help, the manual page, CONFIG, and docs/reference/settings.md are made
// from it.
type setting struct {
	name   string
	arg    string // stands for the value in help; empty: the type of the flag does
	usage  string // of the flag, in whole sentences; empty: the setting has no flag
	detail string // more for the reference page, in Markdown; may be empty
	unit   string // of a number
	kind
	live   bool // CONFIG SET may change it; the others are fixed at the start
	secret bool // only CONFIG GET shows it
	words  bool // of several words, which stand in a file without quotes
	role   bool // names the primary: a file has the line only where there is one
	once   bool // CONFIG REWRITE never adds it to a file
	lax    bool // a file may have any value: a constant that has no meaning here
}

// section is a group of settings that --help and the reference page show under one heading.
type section struct {
	title, about string
	rows         []setting
}

// sections hold all settings, in the order of --help.
var sections = []section{
	{"Network", "Addresses, ports and sockets for clients.", networkSettings},
	{"TLS", "Encrypted connections. Names and meanings are those of redis.conf.", tlsSettings},
	{"Users and passwords", "Who may connect, and which commands exist.", userSettings},
	{"Limits for clients", "Bounds on connections and their memory.", limitSettings},
	{"Data directory and persistence", "Where data is kept, and when it is safe on disk.", persistenceSettings},
	{"Memory and tiers", "How much memory posts use.", memorySettings},
	{"Numbered commands (IDMP)", "What the server remembers to apply a repeated command once.", numberedSettings},
	{"Replication", "Primary and replicas, with or without Sentinel.", replicationSettings},
	{"Cluster", "A cluster of shards that is coordinated by etcd.", clusterSettings},
	{"Logging and monitoring", "Log, slow log, metrics and the console.", observeSettings},
	{"Fixed settings", "Settings of Redis that have one possible value in counterd. Clients and tools query them with CONFIG GET.", []setting{
		{name: "databases", kind: constant("1"), lax: true},
		{name: "maxmemory-policy", kind: constant("noeviction")},
		{name: "replica-read-only", kind: constant("yes")},
		{name: "save", kind: constant(""), lax: true},
		{name: "tls-cluster", kind: constant("no")},
	}},
}

// settings are the rows of all sections.
var settings = func() (all []setting) {
	for _, s := range sections {
		all = append(all, s.rows...)
	}
	return all
}()

// parameter is a setting under one of its names.
type parameter struct {
	name string // with "slave" too
	*setting
}

// parameters are all that CONFIG knows, sorted by name.
var parameters = allParameters()

func allParameters() []parameter {
	var all []parameter
	for i := range settings {
		s := &settings[i]
		if s.get == nil {
			continue
		}
		all = append(all, parameter{s.name, s})
		if old := slave(s.name); old != s.name {
			all = append(all, parameter{old, s})
		}
	}
	slices.SortFunc(all, func(a, b parameter) int { return strings.Compare(a.name, b.name) })
	return all
}

// slave gives the name that Redis had for a setting before; the same name, if it was not renamed.
func slave(name string) string {
	return strings.NewReplacer("replicas", "slaves", "replica", "slave").Replace(name)
}

// modern gives a setting's present name.
func modern(name string) string {
	return strings.NewReplacer("slaves", "replicas", "slave", "replica").Replace(name)
}

// find returns what CONFIG knows by a name in any case, nil if nothing.
func find(name string) *parameter {
	for i := range parameters {
		if strings.EqualFold(parameters[i].name, name) {
			return &parameters[i]
		}
	}
	return nil
}

// Each calls f with the names and values of CONFIG GET, sorted by name.
func (c *Config) Each(f func(name, value string)) {
	for _, p := range parameters {
		f(p.name, p.get(c))
	}
}

// Secret tells whether the value given to a setting must not be shown. A name that is misspelt may have been meant for
// one of these.
func Secret(name string) bool {
	p := find(name)
	return p == nil || p.secret
}

// SecretFlag tells whether the value of a flag, or of such a line of a file, must not be shown.
func SecretFlag(name string) bool {
	p := find(name)
	return name == "user" || p != nil && p.secret
}
