package facts

import "slices"

// table has all rows. Rows of a section of INFO are shown in their order here.
var table = slices.Concat(processRows, clientRows, memoryRows, persistenceRows, trafficRows, replicationRows, commandRows, clusterRows, tierRows, agingRows, windowRows, hotRows, producerRows, cursorRows, countRows)

// Table returns all rows. They must not be changed.
func Table() []Fact { return table }

// families say what a metric means that several rows make up; each row says what its label means.
var families = map[string]string{
	"acl_denied_total":            "Refusals by ACL.",
	"blocks":                      "Blocks (ranges of mids), by counter and tier.",
	"cluster_etcd_failures_total": "Transactions in etcd that did not succeed, and lost leases.",
	"cluster_nodes":               "Nodes of the cluster.",
	"cluster_role_changes_total":  "Role changes that this node made.",
	"cluster_serving":             "1 while this node serves reads or changes.",
	"cluster_shard_nodes":         "Nodes of this node's shard.",
	"cluster_slots_lacking":       "Hash slots that cannot be served.",
	"cold_reads_total":            "Reads of a post in a cold file.",
	"idmp_answers_total":          "Numbered commands that were not executed.",
	"posts":                       "Posts, by counter and tier.",
	"replica_syncs_total":         "Replicas that began to follow.",
	"replicas":                    "Connected replicas.",
	"role":                        "1 for the role of this node, 0 for the other.",
	"tier_change_seconds_total":   "Time of changes of tier.",
	"tier_changes_total":          "Blocks that changed their tier or layout.",
}

// MetricHelp is the meaning of a row's metric.
func (f *Fact) MetricHelp() string {
	if help := families[f.Metric]; help != "" {
		return help
	}
	return f.Help
}

// in puts rows into a section of INFO, in which those stand that have a field there.
func in(section string, part Part, rows ...Fact) []Fact { return of(section, part, false, rows...) }

// of is in for rows of the store, if stored is set.
func of(section string, part Part, stored bool, rows ...Fact) []Fact {
	for i := range rows {
		f := &rows[i]
		f.part, f.stored = part, stored
		if f.Info != "" {
			f.Section = section
		}
		if f.read == nil {
			f.read = func(*State) Value { return Unknown }
		}
	}
	return rows
}

// on is of for rows of the store that apply only while something holds.
func on(section string, part Part, holds func(s *State) bool, rows ...Fact) []Fact {
	rows = of(section, part, true, rows...)
	for i := range rows {
		f := &rows[i]
		read, buckets := f.read, f.buckets
		f.read = func(s *State) Value {
			if !holds(s) {
				return Unknown
			}
			return read(s)
		}
		if buckets != nil {
			f.buckets = func(s *State, add func(b Buckets, labels ...string)) {
				if holds(s) {
					buckets(s, add)
				}
			}
		}
	}
	return rows
}

// same is a second name of a field of INFO, which tools for Redis expect.
func same(name, other string, read func(s *State) Value) Fact {
	return Fact{Info: name, Same: other, Help: "The same as " + other + ".", read: read}
}

func join(groups ...[]Fact) []Fact { return slices.Concat(groups...) }
