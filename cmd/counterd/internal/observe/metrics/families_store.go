package metrics

import (
	"strings"
	"time"
)

// one is a family of the store's with one series.
func one(value func(s *Store) float64) func(s *Store, add add) {
	return func(s *Store, add add) { add(value(s)) }
}

// disk is one of a store with a data directory.
func disk(value func(d *OnDisk) float64) func(s *Store, add add) {
	return func(s *Store, add add) {
		if s.Disk != nil {
			add(value(s.Disk))
		}
	}
}

// diskTimes is a histogram of such a store.
func diskTimes(value func(d *OnDisk) Buckets) func(f *Figures, add func(b Buckets, labels ...string)) {
	return func(f *Figures, add func(b Buckets, labels ...string)) {
		if f.Store != nil && f.Store.Disk != nil {
			add(value(f.Store.Disk))
		}
	}
}

// link is one of a replica.
func link(value func(l *Link) float64) func(s *Store, add add) {
	return func(s *Store, add add) {
		if s.Link != nil {
			add(value(s.Link))
		}
	}
}

// unix is a time as Prometheus has it, 0 for none.
func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

// storeFamilies are of posts, memory and tiers, of the log and of snapshots.
var storeFamilies = []family{
	{kind: gauge, name: "posts", help: "Posts, by their counter and by where they are: hot is in memory, cold is in files.", labels: []string{"counter", "tier"},
		store: func(s *Store, add add) {
			for i := range s.Usage {
				add(float64(s.Usage[i].HotItems), s.Usage[i].Counter, "hot")
				add(float64(s.Usage[i].ColdItems), s.Usage[i].Counter, "cold")
			}
		}},
	{kind: gauge, name: "blocks", help: "Blocks, which are ranges of ids.", labels: []string{"counter", "tier"},
		store: func(s *Store, add add) {
			for i := range s.Usage {
				add(float64(s.Usage[i].HotBlocks), s.Usage[i].Counter, "hot")
				add(float64(s.Usage[i].ColdBlocks), s.Usage[i].Counter, "cold")
			}
		}},
	{kind: gauge, name: "hot_bytes", help: "Memory of posts that are in memory.", labels: []string{"counter"},
		store: func(s *Store, add add) {
			for i := range s.Usage {
				add(float64(s.Usage[i].HotBytes), s.Usage[i].Counter)
			}
		}},
	{kind: gauge, name: "cold_file_bytes", help: "Size of the files of posts that are in files.", labels: []string{"counter"},
		store: func(s *Store, add add) {
			for i := range s.Usage {
				add(float64(s.Usage[i].ColdBytes), s.Usage[i].Counter)
			}
		}},
	{kind: gauge, name: "cold_index_bytes", help: "Memory of the indexes of those files.", labels: []string{"counter"},
		store: func(s *Store, add add) {
			for i := range s.Usage {
				add(float64(s.Usage[i].IndexBytes), s.Usage[i].Counter)
			}
		}},
	{kind: gauge, name: "overlay_blocks", help: "Blocks in files with changes that their files do not have yet.", labels: []string{"counter"},
		store: func(s *Store, add add) {
			for i := range s.Usage {
				add(float64(s.Usage[i].OverlayBlocks), s.Usage[i].Counter)
			}
		}},
	{kind: gauge, name: "overlay_posts", help: "Posts in those changes.", labels: []string{"counter"},
		store: func(s *Store, add add) {
			for i := range s.Usage {
				add(float64(s.Usage[i].OverlayItems), s.Usage[i].Counter)
			}
		}},
	{kind: gauge, name: "overlay_bytes", help: "Memory of those changes.", labels: []string{"counter"},
		store: func(s *Store, add add) {
			for i := range s.Usage {
				add(float64(s.Usage[i].OverlayBytes), s.Usage[i].Counter)
			}
		}},
	{kind: gauge, name: "overflow_values", help: "Values too large for the width of their block, kept in tables of their own.", labels: []string{"counter"},
		store: func(s *Store, add add) {
			for i := range s.Usage {
				add(float64(s.Usage[i].Overflows), s.Usage[i].Counter)
			}
		}},
	{kind: gauge, name: "unusable_files", help: "Blocks whose file is missing or cannot be used: their posts answer IOERR.", labels: []string{"counter"},
		store: func(s *Store, add add) {
			for i := range s.Usage {
				add(float64(s.Usage[i].Unusable), s.Usage[i].Counter)
			}
		}},

	{kind: gauge, name: "posts_memory_bytes", help: "What counts against maxmemory: hot posts, overlays, cached pages.", store: one(func(s *Store) float64 { return float64(s.Tiers.Memory) })},
	{kind: gauge, name: "maxmemory_bytes", help: "maxmemory: above it the oldest ranges go to files; 0 is no limit.", store: one(func(s *Store) float64 { return float64(s.Tiers.MaxMemory) })},
	{kind: gauge, name: "memory_refusing_changes", help: "1 while changes that need memory are answered OOM: maxmemory is passed, and files are not written fast enough.",
		store: one(func(s *Store) float64 { return truth(s.Tiers.Full) })},
	{kind: counts, name: "memory_refusals_total", help: "Times that this began.", store: one(func(s *Store) float64 { return float64(s.Tiers.Refused) })},
	{kind: gauge, name: "page_cache_bytes", help: "Memory of cached pages of cold files.", store: one(func(s *Store) float64 { return float64(s.Tiers.Cache.Bytes) })},
	{kind: gauge, name: "page_cache_limit_bytes", help: "What page_cache_bytes is kept below.", store: one(func(s *Store) float64 { return float64(s.Tiers.Cache.Limit) })},
	{kind: counts, name: "cold_reads_total", help: "Reads of a post in a file. cache: hit, its page was in memory; miss, it was not.", labels: []string{"cache"},
		store: func(s *Store, add add) {
			add(float64(s.Tiers.Cache.Hits), "hit")
			add(float64(s.Tiers.Cache.Misses), "miss")
		}},
	{kind: counts, name: "cold_page_reads_total", help: "Pages taken from cold files: for misses, queries, new files, verification.",
		store: one(func(s *Store) float64 { return float64(s.Tiers.Cache.PageReads) })},
	{kind: counts, name: "cold_read_errors_total", help: "Reads of cold files that failed: the disk, or a damaged page.", store: one(func(s *Store) float64 { return float64(s.Tiers.ReadErrors) })},
	{kind: counts, name: "tier_changes_total", labels: []string{"change"},
		help: "Blocks that changed their place. change: demote, to a file; rewrite, to a new file with their changes; promote, back to memory; repack, to another layout.",
		store: func(s *Store, add add) {
			add(float64(s.Tiers.Demotions), "demote")
			add(float64(s.Tiers.Rewrites), "rewrite")
			add(float64(s.Tiers.Promotions), "promote")
			add(float64(s.Repacks), "repack")
		}},
	{kind: counts, name: "tier_change_seconds_total", help: "Time that these took together.", labels: []string{"change"},
		store: func(s *Store, add add) {
			add(s.Tiers.Demoting.Seconds(), "demote")
			add(s.Tiers.Rewriting.Seconds(), "rewrite")
			add(s.Tiers.Promoting.Seconds(), "promote")
			add(s.Repacking.Seconds(), "repack")
		}},
	{kind: counts, name: "tier_change_failures_total", help: "Changes of place that failed, and are tried again: a full disk, a damaged page.", store: one(func(s *Store) float64 { return float64(s.Tiers.Failed) })},
	{kind: counts, name: "cold_written_bytes_total", help: "Bytes of cold files written.", store: one(func(s *Store) float64 { return float64(s.Tiers.Written) })},
	{kind: counts, name: "scrubbed_files_total", help: "Cold files that were read in the background and found good.", store: one(func(s *Store) float64 { return float64(s.Tiers.Scrubs) })},
	{kind: counts, name: "scrub_errors_total", help: "Cold files, images and segments of the log that were read in the background and found damaged.", store: one(func(s *Store) float64 { return float64(s.Tiers.ScrubErrors) })},

	{kind: gauge, name: "disk_ready", help: "1 while the disk takes changes; 0: they are answered MISCONF.", store: one(func(s *Store) float64 { return truth(s.Ready) })},
	{kind: gauge, name: "disk_free_bytes", help: "Free on the file system of the data directory.", store: func(s *Store, add add) {
		if s.Disk != nil && s.Disk.Space.Total > 0 {
			add(float64(s.Disk.Space.Free))
		}
	}},
	{kind: gauge, name: "disk_size_bytes", help: "Size of that file system.", store: func(s *Store, add add) {
		if s.Disk != nil && s.Disk.Space.Total > 0 {
			add(float64(s.Disk.Space.Total))
		}
	}},
	{kind: gauge, name: "disk_reserve_bytes", help: "What is kept free of it for the next snapshot: changes are refused when only this is left.", store: disk(func(d *OnDisk) float64 { return float64(d.Space.Reserve) })},
	{kind: gauge, name: "disk_low", help: "1 while little is left beyond that.", store: disk(func(d *OnDisk) float64 { return truth(d.Space.Low) })},
	{kind: counts, name: "log_segments_dropped_early_total", help: "Segments that aof-retain asks to keep and that were dropped as the disk is almost full.",
		store: disk(func(d *OnDisk) float64 { return float64(d.Space.Dropped) })},

	{kind: gauge, name: "log_end_bytes", help: "Offset of the end of the log.", store: disk(func(d *OnDisk) float64 { return float64(d.Log.Position) })},
	{kind: gauge, name: "log_durable_bytes", help: "Offset that the log is on the disk up to.", store: disk(func(d *OnDisk) float64 { return float64(d.Log.Durable) })},
	{kind: gauge, name: "log_first_bytes", help: "The oldest offset that is kept.", store: disk(func(d *OnDisk) float64 { return float64(d.Log.First) })},
	{kind: gauge, name: "log_retained_bytes", help: "Length of the log that is kept.", store: disk(func(d *OnDisk) float64 { return float64(d.Log.SegmentBytes) })},
	{kind: gauge, name: "log_disk_bytes", help: "What its files take; below log_retained_bytes where old ones are compressed.", store: disk(func(d *OnDisk) float64 { return float64(d.Log.DiskBytes) })},
	{kind: gauge, name: "log_compressed_segments", help: "Files of it that are compressed.", store: disk(func(d *OnDisk) float64 { return float64(d.Log.Packed) })},
	{kind: gauge, name: "log_segments", help: "Files that it is in.", store: disk(func(d *OnDisk) float64 { return float64(d.Log.Segments) })},
	{kind: gauge, name: "log_unsynced_age_seconds", help: "Age of the oldest change that is not on the disk, at most.", store: disk(func(d *OnDisk) float64 { return d.Log.UnsyncedAge.Seconds() })},
	{kind: histogram, name: "log_write_size_bytes", help: "Size of group commits: all changes of a round are one write. Its sum is what was appended.",
		times: diskTimes(func(d *OnDisk) Buckets {
			return Buckets{d.Log.WriteSizes.Buckets[:], float64(d.Log.WriteSizes.Sum), 1}.from(5) // no frame is shorter than 32 bytes
		})},
	{kind: histogram, name: "log_fsync_duration_seconds", help: "Time to bring the log to the disk, failed attempts included.",
		times: diskTimes(func(d *OnDisk) Buckets {
			return Buckets{d.Log.SyncTimes.Buckets[:], float64(d.Log.SyncTimes.Sum) / 1e6, 1e-6}.from(4)
		})},
	{kind: counts, name: "log_fsync_errors_total", help: "Attempts to bring the log to the disk that failed.", store: disk(func(d *OnDisk) float64 { return float64(d.Log.SyncErrors) })},
	{kind: counts, name: "log_rewrites_total", help: "Attempts to write unsynced changes to a new file, after the disk failed.", store: disk(func(d *OnDisk) float64 { return float64(d.Log.Rewrites) })},

	{kind: counts, name: "snapshots_total", help: "Snapshots that were made.", store: disk(func(d *OnDisk) float64 { return float64(d.Snapshots.Made) })},
	{kind: counts, name: "snapshot_failures_total", help: "Snapshots that failed.", store: disk(func(d *OnDisk) float64 { return float64(d.Snapshots.Failed) })},
	{kind: gauge, name: "snapshot_in_progress", help: "1 while one is made.", store: disk(func(d *OnDisk) float64 { return truth(d.Snapshots.Running) })},
	{kind: gauge, name: "snapshot_last_success_timestamp_seconds", help: "When the newest was made, in unix time; 0 if there is none.", store: disk(func(d *OnDisk) float64 { return unix(d.Snapshots.LastTime) })},
	{kind: gauge, name: "snapshot_oldest_timestamp_seconds", help: "When the older of the two that are kept was made: how far back a restore reaches; 0 if there is none.",
		store: disk(func(d *OnDisk) float64 { return unix(d.Snapshots.OldestTime) })},
	{kind: gauge, name: "snapshot_last_duration_seconds", help: "How long the last attempt took.", store: disk(func(d *OnDisk) float64 { return d.Snapshots.LastTook.Seconds() })},
	{kind: gauge, name: "snapshot_last_ok", help: "1 unless the last attempt failed.", store: disk(func(d *OnDisk) float64 { return truth(d.Snapshots.LastErr == nil) })},
	{kind: gauge, name: "snapshot_size_bytes", help: "Size of all files that the newest names.", store: disk(func(d *OnDisk) float64 { return float64(d.Snapshots.Bytes) })},
	{kind: gauge, name: "snapshot_replay_bytes", help: "Length of the log behind the newest: what a start replays.",
		store: disk(func(d *OnDisk) float64 { return float64(d.Log.Position - min(d.Snapshots.Replay, d.Log.Position)) })},
}

// nodeFamilies are of replication, and of who repeats what.
var nodeFamilies = []family{
	{kind: gauge, name: "role", help: "1 for the role that this node has, 0 for the other.", labels: []string{"role"},
		store: func(s *Store, add add) {
			for _, role := range []string{"primary", "replica"} {
				add(truth(s.Role == role), role)
			}
		}},
	{kind: gauge, name: "failover_in_progress", help: "1 while a FAILOVER is under way.", store: one(func(s *Store) float64 { return truth(s.Failover) })},
	{kind: gauge, name: "replicas_too_few", help: "1 while changes are answered NOREPLICAS: min-replicas-to-write is not met.", store: one(func(s *Store) float64 { return truth(s.FewReplicas) })},
	{kind: gauge, name: "link_up", help: "Of a replica: 1 while it follows its primary.", store: link(func(l *Link) float64 { return truth(l.Up) })},
	{kind: gauge, name: "link_copying", help: "Of a replica: 1 while it takes a full copy.", store: link(func(l *Link) float64 { return truth(l.Copying) })},
	{kind: gauge, name: "link_copied_bytes", help: "Of a replica that takes a full copy: how much it has.", store: link(func(l *Link) float64 { return float64(l.Copied) })},
	{kind: gauge, name: "link_copy_size_bytes", help: "Of a replica that takes a full copy: how much it will be.", store: link(func(l *Link) float64 { return float64(l.Total) })},
	{kind: gauge, name: "link_down_seconds", help: "Of a replica: how long it has not followed its primary.", store: link(func(l *Link) float64 { return l.DownFor.Seconds() })},
	{kind: gauge, name: "link_silent_seconds", help: "Of a replica: time since its primary was last heard of.", store: func(s *Store, add add) {
		if s.Link != nil && s.Link.LastIO >= 0 {
			add(s.Link.LastIO.Seconds())
		}
	}},
	{kind: gauge, name: "link_lag_bytes", help: "Of a replica: log of its primary, as far as it knows, that it has not.", store: link(func(l *Link) float64 { return float64(l.Behind) })},
	{kind: gauge, name: "replicas", help: "Replicas that are connected. state: online, or copying.", labels: []string{"state"},
		store: func(s *Store, add add) {
			online := 0
			for i := range s.Peers {
				if s.Peers[i].Online {
					online++
				}
			}
			add(float64(online), "online")
			add(float64(len(s.Peers)-online), "copying")
		}},
	{kind: gauge, name: "replica_lag_bytes", help: "Log that a replica has not applied.", labels: []string{"replica"},
		store: peers(func(p *Peer) float64 { return float64(p.Behind) })},
	{kind: gauge, name: "replica_lag_seconds", help: "Time since a replica last said how far it is.", labels: []string{"replica"},
		store: peers(func(p *Peer) float64 { return p.Lag.Seconds() })},
	{kind: gauge, name: "replica_log_kept_bytes", help: "Log that is kept from before where a replica stands: below 0 it needs a full copy.", labels: []string{"replica"},
		store: peers(func(p *Peer) float64 { return float64(p.Kept) })},
	{kind: counts, name: "replica_syncs_total", help: "Replicas that began to follow. kind: full, by a copy; partial, where they were; refused, could not go on there.", labels: []string{"kind"},
		store: func(s *Store, add add) {
			add(float64(s.Syncs.Full), "full")
			add(float64(s.Syncs.Partial), "partial")
			add(float64(s.Syncs.Refused), "refused")
		}},
	{kind: counts, name: "diverged_cuts_total", help: "Times that changes of this node, which its new primary has not, were taken back and saved.", store: one(func(s *Store) float64 { return float64(s.CutTails) })},
	{kind: gauge, name: "diverged_files", help: "Files with such changes in the data directory: they stay until somebody has looked at them.", store: one(func(s *Store) float64 { return float64(s.CutFiles) })},

	{kind: gauge, name: "idmp_producers", help: "Producers of numbered commands that are remembered.", store: one(func(s *Store) float64 { return float64(s.Producers.Producers) })},
	{kind: gauge, name: "idmp_max_producers", help: "idmp-max-producers.", store: one(func(s *Store) float64 { return float64(s.IdmpMax) })},
	{kind: gauge, name: "idmp_entries", help: "Numbers that are remembered of them.", store: one(func(s *Store) float64 { return float64(s.Producers.Entries) })},
	{kind: gauge, name: "idmp_memory_bytes", help: "Memory of what is remembered.", store: one(func(s *Store) float64 { return float64(s.Producers.Bytes) })},
	{kind: gauge, name: "idmp_max_memory_bytes", help: "idmp-max-memory.", store: one(func(s *Store) float64 { return float64(s.IdmpBytes) })},
	{kind: counts, name: "idmp_answers_total", labels: []string{"answer"},
		help: "Numbered commands that were not made. answer: repeat, as the first time; mismatch, another command had the number; expired, too old; fenced, of an older epoch; full, no place for their producer.",
		store: func(s *Store, add add) {
			p := &s.Producers
			add(float64(p.Repeats), "repeat")
			add(float64(p.Mismatches), "mismatch")
			add(float64(p.Expired), "expired")
			add(float64(p.Fenced), "fenced")
			add(float64(p.Full), "full")
		}},
	{kind: counts, name: "idmp_producers_forgotten_total", help: "Idle producers that gave their place to others.", store: one(func(s *Store) float64 { return float64(s.Producers.Taken) })},
}

// maxPeers is how many replicas have series of their own.
const maxPeers = 64

// peers is a family with a series for each replica. A replica that comes back is there twice for a moment: the one that
// is further counts.
func peers(value func(p *Peer) float64) func(s *Store, add add) {
	return func(s *Store, add add) {
		best := make(map[string]*Peer, len(s.Peers))
		var names []string
		for i := range s.Peers {
			p := &s.Peers[i]
			name := strings.ToValidUTF8(p.Name, "?") // a replica says itself what it is called
			other := best[name]
			switch {
			case other == nil && len(names) == maxPeers:
			case other == nil:
				names = append(names, name)
				best[name] = p
			case p.Behind < other.Behind:
				best[name] = p
			}
		}
		for _, name := range names {
			add(value(best[name]), name)
		}
	}
}
