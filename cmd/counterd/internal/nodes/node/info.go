package node

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
)

// Info tells what INFO replication does. It has role first: Sentinel reads the lines in order.
func (n *Node) Info(field func(name string, value any)) {
	store, conf := n.host.Store(), n.config.Get()
	stats := store.Admin().LogStats()
	if !n.Replica() {
		field("role", "master")
	} else {
		field("role", "slave")
		n.infoLink(field, conf, stats.Written)
	}
	infos := n.repl.Peers().Infos()
	field("connected_slaves", len(infos))
	if conf.MinReplicas > 0 && conf.MinReplicasMaxLag > 0 {
		field("min_slaves_good_slaves", n.repl.Peers().Good(time.Duration(conf.MinReplicasMaxLag)*time.Second))
	}
	for i, p := range infos {
		state, lag := "send_bulk", int64(0)
		if p.Online || p.Watching {
			state, lag = "online", int64(p.Lag/time.Second)
		}
		field("slave"+strconv.Itoa(i), fmt.Sprintf("ip=%s,port=%d,state=%s,offset=%d,lag=%d", p.IP, p.Port, state, p.Applied, lag))
	}
	past := store.Replication().Lineage()
	id, second, end := n.runID, strings.Repeat("0", 40), int64(-1)
	if len(past.Terms) > 0 {
		id = past.Current().ReplID.String()
	}
	if before, at, ok := past.Before(); ok {
		second, end = before.String(), int64(at)
	}
	field("master_failover_state", n.handover.state())
	field("master_replid", id)
	field("master_replid2", second)
	field("master_repl_offset", stats.Written)
	field("second_repl_offset", end)
	field("repl_backlog_active", min(1, stats.Segments))
	field("repl_backlog_size", stats.SegmentBytes)
	field("repl_backlog_first_byte_offset", stats.First)
	field("repl_backlog_histlen", stats.Written-stats.First)
	for i, p := range infos { // how near each is to needing a full copy: bytes of log it lacks, and what is kept
		field("counterd_slave"+strconv.Itoa(i), fmt.Sprintf("sent=%d,durable=%d,behind=%d,lag_ms=%d,kept=%d", p.Sent, p.Durable,
			max(int64(stats.Written)-int64(p.Applied), 0), p.Lag.Milliseconds(), int64(p.Applied)-int64(stats.First)))
	}
	cuts, last := n.repl.Cuts()
	field("counterd_diverged_cuts", cuts)
	field("counterd_diverged_files", n.repl.CutFiles())
	if cuts > 0 {
		field("counterd_diverged_last", fmt.Sprintf("from=%d,to=%d,sets=%d,deletes=%d,items=%d,file=%s", last.From, last.To, last.Sets, last.Deletes, last.Items, last.File))
	}
}

// TooFew tells whether a refusal of Judge is for want of replicas that follow.
func TooFew(refusal string) bool { return refusal == errFew }

// infoLink tells of the link to the primary.
func (n *Node) infoLink(field func(name string, value any), conf config.Config, written uint64) {
	info, ok := n.repl.Link()
	status := "down"
	if ok && info.State == repl.LinkConnected {
		status = "up"
	}
	io := int64(-1)
	if info.LastIO >= 0 && ok {
		io = int64(info.LastIO / time.Second)
	}
	field("master_host", info.Primary.Host)
	field("master_port", info.Primary.Port)
	field("master_link_status", status)
	field("master_last_io_seconds_ago", io)
	copying := 0
	if info.State == repl.LinkSync {
		copying = 1
	}
	field("master_sync_in_progress", copying)
	field("slave_read_repl_offset", written)
	field("slave_repl_offset", written)
	if copying == 1 {
		field("master_sync_total_bytes", info.Total)
		field("master_sync_read_bytes", info.Copied)
		field("master_sync_left_bytes", info.Total-info.Copied)
		field("master_sync_perc", fmt.Sprintf("%.2f", 100*float64(info.Copied)/float64(max(1, info.Total))))
	}
	if status == "down" {
		field("master_link_down_since_seconds", int64(info.DownFor/time.Second))
	}
	field("slave_priority", conf.ReplicaPriority)
	field("slave_read_only", 1)
	announced := 0
	if conf.Announced {
		announced = 1
	}
	field("replica_announced", announced)
	if info.End > written {
		field("counterd_behind_bytes", info.End-written)
	} else {
		field("counterd_behind_bytes", 0)
	}
	lacks := 0
	if info.Lacks != 0 {
		lacks = 1
	}
	field("counterd_master_lacks_confirmed", lacks)
	if info.Error != "" {
		field("counterd_link_error", strings.NewReplacer("\r", " ", "\n", " ").Replace(info.Error))
	}
}
