package cluster

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/counterd/counterd/cmd/internal/registry"
	"github.com/counterd/counterd/cmd/internal/topology"
)

// troubles is the agent's memory of the troubles that it reported.
type troubles struct {
	at map[string]time.Time // when the text of an ID was written last
}

// failingAfter is for how long etcd must take no write until that is a trouble: an election takes up to 2 s by its settings.
const failingAfter = 3 * time.Second

// findTroubles collects the node's troubles: those that the server finds (Config.Troubles), then those that the agent finds
// (ownTroubles). A new kind of trouble is one row here or there; nothing else has to change for it.
//
// A text that changes is reported again after metricsEvery at the earliest: every node reads each write of a node's key.
func (a *Agent) findTroubles() {
	var list []topology.Trouble
	if a.loop.conf.Troubles != nil {
		list = a.loop.conf.Troubles()
	}
	list = append(list, a.ownTroubles()...)
	list = list[:min(len(list), topology.MaxTroubles)]
	told := a.Troubles()
	at := map[string]time.Time{}
	for i, t := range list {
		at[t.ID] = a.loop.now
		if was := slices.IndexFunc(told, func(o topology.Trouble) bool { return o.ID == t.ID && o.Severity == t.Severity }); was >= 0 {
			if since := a.found.at[t.ID]; told[was] == t || a.loop.now.Sub(since) < metricsEvery {
				list[i], at[t.ID] = told[was], since
				continue
			}
		}
		a.loop.conf.Log.Warn("cluster: the node reports a problem", "id", t.ID, "text", t.Text)
	}
	if a.found.at = at; !slices.Equal(list, told) {
		a.troubles.Store(&list)
	}
}

// ownTroubles are the rows about etcd, the map and the role.
func (a *Agent) ownTroubles() (list []topology.Trouble) {
	say := func(id, text string) {
		list = append(list, topology.Trouble{ID: id, Severity: topology.SevereError, Text: text})
	}
	var older *registry.RevisionError
	switch err := a.loop.conf.Registry.Err(); {
	case errors.As(err, &older):
		say("etcd", fmt.Sprintf("etcd is older than it was (revision %d, and the node has seen %d): it was restored from a backup and may not know which nodes are in sync. "+
			"The node takes nothing from it. Restore etcd with etcdutl snapshot restore --bump-revision", older.Got, older.Want))
	case err != nil:
		say("etcd", "etcd does not answer: "+err.Error())
	case !a.loop.failing.IsZero() && a.loop.now.Sub(a.loop.failing) >= failingAfter:
		say("etcd", "etcd takes no writes of this node: "+a.loop.why.Error())
	}
	s := a.loop.shard()
	if s != nil && a.role.kind == following && a.loop.host.Link().Lacks != 0 {
		say("primary-lacks", "it has acknowledged changes that its primary lacks: it keeps its log and does not follow. To keep the changes, counterctl cluster failover SHARD --unclean "+
			"--to this node. To give them up, start it with an empty directory")
	}
	switch {
	case s == nil || !s.Has(a.loop.id):
	case a.starts.outdated():
		text := "its directory is an older copy and may lack changes that the node acknowledged: it takes no part. "
		if a.othersInSync(s) {
			text += "It catches up when another node in sync leads and has taken it out of the in-sync set"
		} else {
			text += "No other node in sync runs: start one, or put the newest directory back. If all of that is lost, counterctl cluster failover SHARD --unclean"
		}
		say("old-copy", text)
	case a.lostByEtcd(s):
		say("etcd-older", "its log is of a later epoch than etcd's: etcd was restored from an older backup, and may not know which nodes are in sync. "+
			"The node rests. Compare the ends of the logs in counterctl cluster status, then counterctl cluster failover SHARD --unclean --to the node that has most")
	}
	return list
}

// othersInSync tells whether another node runs that has all that was acknowledged.
func (a *Agent) othersInSync(s *topology.Shard) bool {
	return slices.ContainsFunc(s.InSync, func(id topology.NodeID) bool {
		live := a.loop.m.Live[id]
		return id != a.loop.id && live != nil && !live.Outdated
	})
}

// Troubles are the faults that the node reports of itself, as of the agent's last step. The list is not to be changed.
func (a *Agent) Troubles() []topology.Trouble {
	if list := a.troubles.Load(); list != nil {
		return *list
	}
	return nil
}
