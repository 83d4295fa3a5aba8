package facts

import (
	"cmp"
	"strings"
	"time"
)

// link is a row about a replica's link. while tells when the row applies; nil: always.
func link(f Fact, while func(l *Link) bool, of func(l *Link) Value) Fact {
	f.read = func(s *State) Value {
		if s.Link == nil || while != nil && !while(s.Link) {
			return Unknown
		}
		return of(s.Link)
	}
	return f
}

// asReplica is a row of INFO that a replica has also without a link: link gives the value, or nil without a link.
func asReplica(f Fact, of func(s *State, l *Link) Value) Fact {
	f.read = func(s *State) Value {
		if s.Role != "replica" {
			return Unknown
		}
		l := s.Link
		if l == nil {
			l = &Link{LastIO: -1}
		}
		return of(s, l)
	}
	return f
}

// compare is a row about the result after all posts were compared.
func compare(f Fact, of func(c *Compare) Value) Fact {
	f.read = func(s *State) Value {
		if s.Replication.Compare.Passes == 0 {
			return Unknown
		}
		return of(&s.Replication.Compare)
	}
	return f
}

func down(l *Link) bool { return !l.Up() }

// replicationRows are about roles, the link of a replica, and the replicas of a node. role comes first, and the rest of
// INFO's fields in the order of Redis: Sentinel reads the lines in order.
var replicationRows = join(
	of("Replication", PartNodes, true,
		Fact{Info: "role", Help: "master or slave.", read: func(s *State) Value {
			if s.Role == "replica" {
				return Text("slave")
			}
			return Text("master")
		}},
		Fact{Metric: "role", Type: Gauge, Labels: []string{"role"}, Label: "primary", Help: "1 if this node is a primary.", read: func(s *State) Value { return Bool(s.Role == "primary") }},
		Fact{Metric: "role", Type: Gauge, Labels: []string{"role"}, Label: "replica", Help: "1 if this node is a replica.", read: func(s *State) Value { return Bool(s.Role == "replica") }},
		asReplica(Fact{Info: "master_host", Help: "Host of the primary; only on a replica, as the other fields about the primary."}, func(s *State, _ *Link) Value { return Text(s.Replication.Primary) }),
		asReplica(Fact{Info: "master_port", Help: "Port of the primary."}, func(s *State, _ *Link) Value { return Int(s.Replication.Port) }),
		link(Fact{JSON: "link.primary", Help: "Address of the primary."}, nil, func(l *Link) Value { return Text(l.Primary) }),
		link(Fact{JSON: "link.state", Help: "State of the link to the primary: connect, connecting, sync or connected."}, nil, func(l *Link) Value { return Text(l.State) }),
		asReplica(Fact{Info: "master_link_status", Metric: "link_up", Type: Gauge, Help: "up while the replica follows its primary, else down. The metric is 1 or 0."}, func(_ *State, l *Link) Value {
			return Value{kind: status, n: Bool(l.Up()).n}
		}),
		asReplica(Fact{Info: "master_last_io_seconds_ago", Metric: "link_silent_seconds", Type: Gauge, JSON: "link.lastIO",
			Help: "Time since the primary was last heard from; before the first time, INFO shows -1, and the others nothing."}, func(_ *State, l *Link) Value {
			if l.LastIO < 0 {
				return Value{kind: never, n: -1}
			}
			return Span(l.LastIO)
		}),
		asReplica(Fact{Info: "master_sync_in_progress", Metric: "link_copying", Type: Gauge, Help: "1 while the replica takes a full copy from its primary."}, func(_ *State, l *Link) Value { return Bool(l.Copying()) }),
		asReplica(Fact{Info: "slave_read_repl_offset", Unit: "log offset", Help: "Offset up to which the replica has received the log."}, func(s *State, _ *Link) Value { return Uint(s.Log.Written) }),
		asReplica(Fact{Info: "slave_repl_offset", Unit: "log offset", Help: "Offset up to which the replica has applied the log."}, func(s *State, _ *Link) Value { return Uint(s.Log.Written) }),
		link(Fact{Info: "master_sync_total_bytes", Metric: "link_copy_size_bytes", Type: Gauge, JSON: "link.total", Help: "Size of the full copy; only while one is taken."}, (*Link).Copying, func(l *Link) Value { return Int(l.Total) }),
		link(Fact{Info: "master_sync_read_bytes", Metric: "link_copied_bytes", Type: Gauge, JSON: "link.copied", Help: "Bytes of the full copy received so far; only while one is taken."}, (*Link).Copying, func(l *Link) Value { return Int(l.Copied) }),
		link(Fact{Info: "master_sync_left_bytes", Help: "Bytes of the full copy still to receive; only while one is taken."}, (*Link).Copying, func(l *Link) Value { return Int(l.Total - l.Copied) }),
		link(Fact{Info: "master_sync_perc", Unit: "percent", Help: "Received share of the full copy; only while one is taken."}, (*Link).Copying, func(l *Link) Value { return Decimal(100*float64(l.Copied)/float64(max(1, l.Total)), 2) }),
		link(Fact{Info: "master_link_down_since_seconds", Metric: "link_down_seconds", Type: Gauge, JSON: "link.down", Help: "How long the link has been down; absent while it is up."}, down, func(l *Link) Value { return Span(l.Down) }),
		asReplica(Fact{Info: "slave_priority", Help: "Setting replica-priority, which Sentinel reads; 0 while the node is being started, is healing or waits to, or less than 1 MiB of its disk is free."}, func(s *State, _ *Link) Value { return Int(s.Replication.Priority) }),
		asReplica(Fact{Info: "slave_read_only", Redis: true, Help: "Always 1."}, func(*State, *Link) Value { return Int(1) }),
		asReplica(Fact{Info: "replica_announced", Help: "Setting replica-announced, which Sentinel reads."}, func(s *State, _ *Link) Value { return Bool(s.Replication.Announced) }),
		asReplica(Fact{Info: "counterd_behind_bytes", Metric: "link_lag_bytes", Type: Gauge, JSON: "link.behind", Help: "Length of the primary's log that the replica does not have, as far as it knows."}, func(_ *State, l *Link) Value { return Uint(l.Behind) }),
		asReplica(Fact{Info: "counterd_master_lacks_confirmed", Help: "1 if the primary lacks changes that were confirmed to clients: the replica does not follow it."}, func(_ *State, l *Link) Value { return Bool(l.Lacks) }),
		link(Fact{Info: "counterd_link_error", JSON: "link.error", Help: "Why the link is down; absent if nothing is wrong."}, func(l *Link) bool { return l.Error != "" }, func(l *Link) Value {
			return Text(Clip(strings.NewReplacer("\r", " ", "\n", " ").Replace(l.Error)))
		}),
		Fact{Info: "connected_slaves", Help: "Connected replicas.", read: func(s *State) Value { return Int(len(s.Replicas)) }},
		Fact{Metric: "replicas", Type: Gauge, Labels: []string{"state"}, Label: "online", Help: "Replicas that follow this node.", read: func(s *State) Value { return Int(online(s)) }},
		Fact{Metric: "replicas", Type: Gauge, Labels: []string{"state"}, Label: "copying", Help: "Replicas that are being sent a full copy.", read: func(s *State) Value { return Int(len(s.Replicas) - online(s)) }},
		Fact{Info: "min_slaves_good_slaves", JSON: "goodReplicas", Help: "Replicas that acknowledged the log within min-replicas-max-lag; only if min-replicas-to-write is set.",
			read: func(s *State) Value { return known(s.Replication.MinReplicas > 0, Int(s.Replication.GoodReplicas)) }},
		Fact{JSON: "minReplicas", Help: "Setting min-replicas-to-write; 0 means that changes need no replica.", read: func(s *State) Value { return Int(s.Replication.MinReplicas) }},
		Fact{Metric: "replicas_too_few", Type: Gauge, Help: "1 while changes get NOREPLICAS because min-replicas-to-write is not met.", read: func(s *State) Value { return Bool(s.Replication.TooFew) }}),
	slaves.rows(
		column[Replica]{line: slaveLine, key: "ip", Fact: Fact{Help: "Address of the replica."}, of: func(r *Replica) Value { return Text(r.Host) }},
		column[Replica]{line: slaveLine, key: "port", Fact: Fact{Help: "Port of the replica."}, of: func(r *Replica) Value { return Int(r.Port) }},
		column[Replica]{line: slaveLine, key: "state", Fact: Fact{Help: "online, or send_bulk while it is sent a full copy."}, of: func(r *Replica) Value {
			if r.Online || r.Watching {
				return Text("online")
			}
			return Text("send_bulk")
		}},
		column[Replica]{line: slaveLine, key: "offset", Fact: Fact{Unit: "log offset", Help: "Offset up to which it has applied the log."}, of: func(r *Replica) Value { return Uint(r.Applied) }},
		column[Replica]{line: slaveLine, key: "lag", Fact: Fact{Unit: "seconds", Help: "Time since its last acknowledgement, in whole seconds; 0 while it is sent a full copy."}, of: func(r *Replica) Value {
			if !r.Online && !r.Watching {
				return Int(0)
			}
			return Int(int64(r.Lag / time.Second))
		}},
	),
	of("Replication", PartNodes, true,
		Fact{Info: "master_failover_state", Help: "no-failover, or the phase of a FAILOVER.", read: func(s *State) Value { return Text(s.Replication.Failover) }},
		Fact{Metric: "failover_in_progress", Type: Gauge, Help: "1 while a FAILOVER is in progress.", read: func(s *State) Value { return Bool(s.Replication.Failover != "no-failover") }},
		Fact{Info: "master_replid", Help: "Replication id: it names the history of this log.", read: func(s *State) Value { return Text(s.Replication.ID) }},
		Fact{Info: "master_replid2", Help: "Replication id before the last failover; zeros if there was none.", read: func(s *State) Value { return Text(s.Replication.Second) }},
		Fact{Info: "master_repl_offset", Unit: "log offset", Help: "Offset of the end of the log that was written.", read: func(s *State) Value { return Uint(s.Log.Written) }},
		Fact{Info: "second_repl_offset", Unit: "log offset", Help: "Offset up to which master_replid2 holds; -1 if there is none.", read: func(s *State) Value { return Int(s.Replication.SecondEnd) }},
		Fact{Info: "repl_backlog_active", Help: "1 if there is a log that replicas can continue from.", read: func(s *State) Value { return Int(min(1, s.Log.Segments)) }},
		same("repl_backlog_size", "log_bytes", func(s *State) Value { return Int(s.Log.SegmentBytes) }),
		same("repl_backlog_first_byte_offset", "log_first", func(s *State) Value { return Uint(s.Log.First) }),
		same("repl_backlog_histlen", "log_bytes", func(s *State) Value { return Uint(s.Log.Written - s.Log.First) })),
	replicaList.rows(
		column[Replica]{line: roomLine, key: "sent", Fact: Fact{Unit: "log offset", Help: "Offset up to which it was sent the log."}, of: func(r *Replica) Value { return Uint(r.Sent) }},
		column[Replica]{line: roomLine, key: "durable", Fact: Fact{Unit: "log offset", Help: "Offset up to which it has the log on disk."}, of: func(r *Replica) Value { return Uint(r.Durable) }},
		column[Replica]{line: roomLine, key: "behind", json: "behind", Fact: Fact{Metric: "replica_lag_bytes", Type: Gauge, Unit: "bytes", Help: "Length of the log that it has not applied."}, of: func(r *Replica) Value { return Uint(r.Behind) }},
		column[Replica]{line: roomLine, key: "lag_ms", json: "lag", Fact: Fact{Metric: "replica_lag_seconds", Type: Gauge, Unit: "milliseconds", Help: "Time since its last acknowledgement."}, of: func(r *Replica) Value { return Span(r.Lag) }},
		column[Replica]{line: roomLine, key: "kept", json: "kept", Fact: Fact{Metric: "replica_log_kept_bytes", Type: Gauge, Unit: "bytes",
			Help: "Length of the log that is kept before its position; below 0, it needs a full copy."}, of: func(r *Replica) Value { return Int(r.Kept) }},
		column[Replica]{json: "online", Fact: Fact{Help: "Whether it follows; otherwise it is being sent a full copy."}, of: func(r *Replica) Value { return Bool(r.Online) }},
	),
	of("Replication", PartNodes, true,
		Fact{Info: "counterd_diverged_cuts", Metric: "diverged_cuts_total", Type: Counter, Help: "How often this node took back and saved changes that its new primary does not have.", read: func(s *State) Value { return Int(s.Replication.Cuts) }}),
	of("Replication", PartNodes, true,
		Fact{Info: "counterd_healing", Metric: "healing", Type: Gauge, JSON: "healing", Help: "1 while damaged files are set aside and the node copies the data of another node. It answers no reads meanwhile.",
			read: func(s *State) Value { return Bool(s.Replication.Healing != "") }},
		Fact{Info: "counterd_healing_waits", Metric: "healing_waits", Type: Gauge, Help: "1 while a node with a damaged directory looks for another node that has its data. It has set nothing aside, and loads nothing.",
			read: func(s *State) Value { return Bool(s.Replication.Waits != "") }},
		Fact{Info: "counterd_healing_damage", Help: "The damage; absent unless the node is healing or looks for another node that has its data.",
			read: func(s *State) Value {
				text := cmp.Or(s.Replication.Healing, s.Replication.Waits)
				return known(text != "", Text(Clip(text)))
			}},
		Fact{Info: "counterd_healing_history", Help: "Replication id of the log of a replica that cannot open its data, and waits until its primary has opened its own. Absent otherwise.",
			read: func(s *State) Value { return known(s.Replication.ClosedID != "", Text(s.Replication.ClosedID)) }},
		Fact{Info: "counterd_healing_offset", Unit: "log offset", Help: "End of that log, which the primary may lack; absent otherwise.",
			read: func(s *State) Value { return known(s.Replication.ClosedID != "", Uint(s.Replication.ClosedEnd)) }},
		Fact{Info: "counterd_healing_seconds", Metric: "healing_seconds", Type: Gauge, Help: "How long the node has been healing; absent while it is not.",
			read: func(s *State) Value { return known(s.Replication.Healing != "", Span(s.Replication.Since)) }},
		Fact{Info: "counterd_healed", Metric: "healed_total", Type: Counter, Help: "How often the node replaced a damaged directory by the data of another node.",
			read: func(s *State) Value { return Uint(s.Replication.Healed) }},
		Fact{Info: "counterd_healing_lost_bytes", Metric: "healing_lost_bytes_total", Type: Counter, Unit: "bytes", Help: "Length of this node's log that was lost by damage, as no other node had it.",
			read: func(s *State) Value { return Uint(s.Replication.HealingLost) }},
		Fact{Info: "counterd_refilled_ranges", Metric: "refilled_ranges_total", Type: Counter, Help: "Ranges of posts with a damaged cold file that were filled with the posts of another node.",
			read: func(s *State) Value { return Uint(s.Replication.Refilled) }},
		Fact{Info: "counterd_refilled_posts", Metric: "refilled_posts_total", Type: Counter, Help: "Posts that came from another node for such ranges.",
			read: func(s *State) Value { return Uint(s.Replication.RefilledPosts) }},
		Fact{Info: "counterd_refilled_log_segments", Metric: "refilled_log_segments_total", Type: Counter, Help: "Damaged log segments that were made again with frames of another node.",
			read: func(s *State) Value { return Uint(s.Replication.RefilledLog) }},
		Fact{Info: "counterd_refill_failures", Metric: "refill_failures_total", Type: Counter, Help: "Attempts to fill such a range, or to make such a segment again, that failed. The node tries again every 5 s.",
			read: func(s *State) Value { return Uint(s.Replication.RefillFailures) }}),
	of("Replication", PartDiverged, true,
		Fact{Info: "counterd_diverged_files", Metric: "diverged_files", Type: Gauge, JSON: "diverged", Help: "Files with such changes in the data directory. They stay until an operator deletes them.", read: func(s *State) Value { return Int(s.Replication.Diverged) }}),
	of("Replication", PartNodes, true,
		Fact{Info: "counterd_diverged_last", Help: "The last time: log offsets, numbers of changes, and the file; absent if there was none.",
			read: func(s *State) Value { return known(s.Replication.Cuts > 0, Text(s.Replication.LastCut)) }},
		Fact{Info: "counterd_compare_posts", Metric: "compare_posts_total", Type: Counter, Help: "Posts that were compared with those of the primary or of replicas.", read: func(s *State) Value { return Uint(s.Replication.Compare.Posts) }},
		Fact{Info: "counterd_compare_passes", Metric: "compare_passes_total", Type: Counter, JSON: "compare.passes", Help: "How often this node compared all of its posts with its replicas.", read: func(s *State) Value { return Uint(s.Replication.Compare.Passes) }},
		compare(Fact{Info: "counterd_compare_last_pass", Metric: "compare_last_pass_age_seconds", Type: Gauge, JSON: "compare.age", Unit: "seconds", Help: "Time since all posts were last compared with the replicas; absent if they never were."},
			func(c *Compare) Value { return Span(time.Since(c.LastPass)) }),
		compare(Fact{Info: "counterd_compare_pass_seconds", Metric: "compare_pass_seconds", Type: Gauge, JSON: "compare.took", Help: "How long that took."}, func(c *Compare) Value { return Span(c.PassTook) }),
		Fact{Info: "counterd_compare_missed", Metric: "compare_missed_ranges_total", Type: Counter, Help: "Ranges of posts that were not compared, because a replica was too far behind or did not answer.", read: func(s *State) Value { return Uint(s.Replication.Compare.Missed) }},
		Fact{Info: "counterd_compare_unreadable", Metric: "compare_unreadable_ranges_total", Type: Counter, Help: "Ranges of posts that were not compared, because a file of this node or of a replica is damaged.", read: func(s *State) Value { return Uint(s.Replication.Compare.Unreadable) }},
		Fact{Info: "counterd_compare_differences", Metric: "compare_differences_total", Type: Counter, JSON: "compare.differences", Help: "Posts that were different on a replica. A node counts its own, and a primary those of its replicas.",
			read: func(s *State) Value { return Uint(s.Replication.Compare.Differences) }},
		Fact{Info: "counterd_compare_mended", Metric: "compare_mended_total", Type: Counter, JSON: "compare.mended", Help: "Posts among them that got the values of the primary.", read: func(s *State) Value { return Uint(s.Replication.Compare.Mended) }},
		Fact{Info: "counterd_compare_differing", Metric: "compare_differing_ranges", Type: Gauge, JSON: "compare.differing", Help: "Ranges of posts in which a replica of this primary still differs, as it could not take the values.",
			read: func(s *State) Value { return Uint(s.Replication.Compare.Differing) }},
		Fact{Info: "counterd_compare_last", JSON: "compare.last", Help: "The last difference: counter, post, and its values; absent if there was none.",
			read: func(s *State) Value {
				return known(s.Replication.Compare.Last != "", Text(Clip(s.Replication.Compare.Last)))
			}},
		Fact{JSON: "refusal", Help: "Error that a change gets now; absent if changes are accepted.", read: func(s *State) Value { return known(s.Refusal != "", Text(Clip(s.Refusal))) }},
		Fact{JSON: "pause", Help: "What delays commands: CLIENT PAUSE or a failover; absent if nothing does.", read: func(s *State) Value { return known(s.Pause != "", Text(s.Pause)) }}),
)

// online counts the replicas that follow.
func online(s *State) (n int) {
	for i := range s.Replicas {
		if s.Replicas[i].Online {
			n++
		}
	}
	return n
}

var (
	slaves      = list[Replica]{part: PartNodes, stored: true, items: func(s *State) []Replica { return s.Replicas }, label: func(r *Replica) string { return r.Addr }}
	replicaList = list[Replica]{part: PartNodes, stored: true, json: "replicas", name: "addr", help: "The connected replicas.", items: func(s *State) []Replica { return s.Replicas }, series: namedReplicas,
		labels: []string{"replica"}, label: func(r *Replica) string { return r.Addr }}
	slaveLine = &line[Replica]{section: "Replication", prefix: "slave", numbered: true, help: "One line for each connected replica."}
	roomLine  = &line[Replica]{section: "Replication", prefix: "counterd_slave", numbered: true, help: "One more line for each connected replica: how close it is to needing a full copy."}
)
