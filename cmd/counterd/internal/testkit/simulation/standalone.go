package simulation

import "fmt"

// A standalone run has a primary and replicas that no etcd decides about; in some runs, Sentinel does (sentinel.go). Without it,
// the primary keeps its role until FAILOVER hands it over; a kill or a power loss at any moment of that leaves nodes that find the primary by
// themselves. With appendfsync always, nothing that was acknowledged is ever lost: only one node at a time acknowledges, and what it
// acknowledges is on its disk.

// replicate makes the first machine the primary, and all others its replicas.
func (r *Run) replicate() bool {
	if !r.await("all nodes run", func() string {
		for _, m := range r.Machines {
			if m.server() == nil {
				return m.name + " does not run"
			}
		}
		return ""
	}) {
		return false
	}
	if !r.inherited() {
		return false
	}
	primary := r.Machines[0].host
	for _, m := range r.Machines[1:] {
		if !r.await(m.name+" is a replica", func() string {
			if _, err := r.operator.say(m.host, "REPLICAOF", primary, "7000"); err != nil {
				return err.Error()
			}
			return ""
		}) {
			return false
		}
	}
	return r.await("all replicas follow", r.following) && r.addSchema() && r.fill()
}

// following tells which replica does not follow the primary, or that there is none.
func (r *Run) following() string {
	primaries := 0
	for _, m := range r.Machines {
		v, err := r.operator.say(m.host, "ROLE")
		if err != nil {
			return m.name + ": " + err.Error()
		}
		if v.Array[0].Str == "master" {
			primaries++
		} else if state := v.Array[3].Str; state != "connected" {
			return fmt.Sprintf("%s: its link is %s", m.name, state)
		}
	}
	if primaries != 1 {
		return fmt.Sprintf("%d nodes are primaries", primaries)
	}
	return ""
}

// reading is a command that reads a key on a primary alone: a replica may answer GET by what it had a while ago.
func (r *Run) reading(key string) []string {
	if r.Config.Standalone {
		return []string{"INCRBY", key, "0"}
	}
	return []string{"GET", key}
}
