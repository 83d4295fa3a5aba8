package facts

import "time"

// okText is how Redis shows whether the last attempt succeeded.
func okText(ok bool) Value {
	if ok {
		return Text("ok")
	}
	return Text("err")
}

// took is a number of whole seconds, -1 if nothing was done, as Redis shows it.
func took(done bool, d time.Duration) Value {
	if !done {
		return Int(-1)
	}
	return Int(int64(d / time.Second))
}

func saving(s *State) Value { return Bool(s.Snapshots.Running) }
func lastTook(s *State) Value {
	return took(!s.Snapshots.LastStarted.IsZero(), s.Snapshots.LastTook)
}

// Replay is the length of the log behind the newest snapshot.
func (s *State) Replay() uint64 { return s.Log.Position - min(s.Snapshots.Replay, s.Log.Position) }

// diskWritten is the number of bytes written to the data directory.
func diskWritten(s *State) uint64 {
	return s.Log.WrittenBytes + s.Snapshots.Written + uint64(s.Tiers.Written)
}

// loading is a row about data being loaded.
func loading(f Fact, of func(l *Loading) Value) Fact {
	f.read = func(s *State) Value {
		if s.Loading == nil {
			return Unknown
		}
		return of(s.Loading)
	}
	return f
}

// persistenceRows are about loading, snapshots and the log. Redis has two ways to keep data, and counterd has one: a log
// that snapshots shorten. It is shown as an append-only file, and its snapshots as saves.
var persistenceRows = join(
	in("Persistence", PartProcess,
		Fact{Info: "loading", Metric: "loading", Type: Gauge, Help: "1 while data is being loaded, at the start or when a replica installs a copy: clients get LOADING.", read: func(s *State) Value { return Bool(s.Loading != nil) }},
		fixed("async_loading", "0", "Always 0."),
		loading(Fact{Info: "loading_start_time", Unit: "seconds since 1970", Help: "Time at which loading began; only while data is being loaded."}, func(l *Loading) Value { return Moment(l.Began) }),
		loading(Fact{Info: "loading_total_bytes", Metric: "loading_size_bytes", Type: Gauge, JSON: "loading.total", Help: "Bytes of data to load; only while data is being loaded."}, func(l *Loading) Value { return Uint(l.Total) }),
		loading(Fact{Info: "loading_loaded_bytes", Metric: "loading_done_bytes", Type: Gauge, JSON: "loading.done", Help: "Bytes of data loaded so far; only while data is being loaded."}, func(l *Loading) Value { return Uint(l.Done) }),
		loading(Fact{Info: "loading_loaded_perc", Unit: "percent", Help: "The same as a share of all."}, func(l *Loading) Value { return Decimal(100*float64(l.Done)/float64(max(1, l.Total)), 2) }),
		loading(Fact{Info: "loading_eta_seconds", JSON: "loading.left", Help: "Estimated time until all data is loaded; only while data is being loaded."}, func(l *Loading) Value { return Span(l.Left + time.Second - 1) })),
	of("Persistence", PartDisk, true,
		Fact{Info: "durability", JSON: "disk.durability", Help: "none, or appendfsync and its setting.", read: func(s *State) Value {
			if !s.Disk.Durable {
				return Text("none")
			}
			return Text("appendfsync " + s.Disk.Fsync)
		}},
		Fact{Info: "in_memory_only", Help: "1 if appendonly is no: all data is lost when the process ends.", read: func(s *State) Value { return Bool(s.Disk.Memory) }}),
	of("Persistence", PartClients, true,
		Fact{Info: "rdb_changes_since_last_save", Help: "Commands since the last snapshot that may have changed data.", read: func(s *State) Value { return Int(s.Traffic.Unsaved) }}),
	of("Persistence", PartDisk, true,
		Fact{Info: "rdb_bgsave_in_progress", Metric: "snapshot_in_progress", Type: Gauge, JSON: "snapshot.running", Help: "1 while a snapshot is being made.", read: saving},
		Fact{Info: "rdb_last_save_time", Unit: "seconds since 1970", Help: "Time of the last snapshot, or of the start if there is none.", read: func(s *State) Value { return Moment(s.Disk.LastSave) }},
		Fact{Info: "rdb_last_bgsave_status", Help: "ok, or err if the last attempt to make a snapshot failed.", read: func(s *State) Value { return okText(s.Snapshots.LastErr == nil) }},
		Fact{Info: "rdb_last_bgsave_time_sec", Help: "Duration of the last attempt to make a snapshot; -1 if there was none.", read: lastTook},
		Fact{Info: "rdb_current_bgsave_time_sec", Help: "0 while a snapshot is being made, else -1.", read: func(s *State) Value { return took(s.Snapshots.Running, 0) }},
		Fact{Info: "rdb_saves", Metric: "snapshots_total", Type: Counter, Help: "Snapshots that were made.", read: func(s *State) Value { return Int(s.Snapshots.Made) }},
		Fact{Info: "aof_enabled", JSON: "disk.durable", Help: "1 if data is kept in a log on disk.", read: func(s *State) Value { return Bool(s.Disk.Durable) }},
		same("aof_rewrite_in_progress", "rdb_bgsave_in_progress", saving),
		fixed("aof_rewrite_scheduled", "0", "Always 0."),
		same("aof_last_rewrite_time_sec", "rdb_last_bgsave_time_sec", lastTook),
		same("aof_current_rewrite_time_sec", "rdb_current_bgsave_time_sec", func(s *State) Value { return took(s.Snapshots.Running, 0) }),
		same("aof_last_bgrewrite_status", "rdb_last_bgsave_status", func(s *State) Value { return okText(s.Snapshots.LastErr == nil) }),
		Fact{Info: "aof_last_write_status", Help: "ok, or err while the disk takes no changes.", read: func(s *State) Value { return okText(s.Disk.Trouble == "") }},
		Fact{Metric: "disk_ready", Type: Gauge, Help: "1 while the disk accepts changes; at 0, changes get MISCONF.", read: func(s *State) Value { return Bool(s.Disk.Trouble == "") }},
		Fact{JSON: "disk.trouble", Help: "Why the disk takes no changes; absent while it does.", read: func(s *State) Value { return known(s.Disk.Trouble != "", Text(s.Disk.Trouble)) }}),
	on("Persistence", PartDisk|PartTiers, func(s *State) bool { return s.Disk.Durable },
		same("aof_current_size", "log_disk_bytes", func(s *State) Value { return Int(s.Log.DiskBytes) }),
		same("aof_base_size", "snapshot_bytes", func(s *State) Value { return Uint(s.Snapshots.Bytes) }),
		Fact{Info: "log_position", Metric: "log_end_bytes", Type: Gauge, JSON: "disk.logEnd", Unit: "log offset", Help: "Offset of the end of the log.", read: func(s *State) Value { return Uint(s.Log.Position) }},
		Fact{Info: "log_durable", Metric: "log_durable_bytes", Type: Gauge, JSON: "disk.logDurable", Unit: "log offset", Help: "Offset up to which the log is on disk.", read: func(s *State) Value { return Uint(s.Log.Durable) }},
		Fact{Info: "log_first", Metric: "log_first_bytes", Type: Gauge, JSON: "disk.logFirst", Unit: "log offset", Help: "Oldest offset of the log that is kept.", read: func(s *State) Value { return Uint(s.Log.First) }},
		Fact{Info: "log_segments", Metric: "log_segments", Type: Gauge, JSON: "disk.segments", Help: "Segment files of the log.", read: func(s *State) Value { return Int(s.Log.Segments) }},
		Fact{Info: "log_bytes", Metric: "log_retained_bytes", Type: Gauge, JSON: "disk.logBytes", Help: "Length of the log that is kept, uncompressed.", read: func(s *State) Value { return Int(s.Log.SegmentBytes) }},
		Fact{Info: "log_disk_bytes", Metric: "log_disk_bytes", Type: Gauge, JSON: "disk.logDisk", Help: "Size of the segment files; less than the length of the log where old segments are compressed.",
			read: func(s *State) Value { return Int(s.Log.DiskBytes) }},
		Fact{Info: "log_compressed_segments", Metric: "log_compressed_segments", Type: Gauge, Help: "Segment files that are compressed.", read: func(s *State) Value { return Int(s.Log.Packed) }},
		Fact{Info: "log_compressed_bytes", Help: "Length of the log in compressed segments.", read: func(s *State) Value { return Int(s.Log.PackedBytes) }},
		Fact{Info: "log_compressed_disk_bytes", Help: "Size of the compressed segment files.", read: func(s *State) Value { return Int(s.Log.PackedDisk) }},
		Fact{Info: "log_writes", Metric: "log_write_size_bytes", Type: Histogram, Help: "Writes to the log: all changes of a round are committed by one write. The metric counts them by size, and its sum is log_written_bytes.",
			read: func(s *State) Value { return Uint(s.Log.Writes) },
			buckets: func(s *State, add func(b Buckets, labels ...string)) { // no frame is shorter than 32 bytes
				add(Buckets{s.Log.WriteSizes.Buckets[:], float64(s.Log.WriteSizes.Sum), 1}.from(5))
			}},
		Fact{Info: "log_written_bytes", Help: "Bytes appended to the log.", read: func(s *State) Value { return Uint(s.Log.WrittenBytes) }},
		Fact{Info: "log_syncs", Metric: "log_fsync_duration_seconds", Type: Histogram, Help: "Syncs of the log to the disk, including failed ones. The metric counts them by duration.",
			read: func(s *State) Value { return Uint(s.Log.Syncs) },
			buckets: func(s *State, add func(b Buckets, labels ...string)) {
				add(Buckets{s.Log.SyncTimes.Buckets[:], float64(s.Log.SyncTimes.Sum) / 1e6, 1e-6}.from(4))
			}},
		Fact{Info: "log_sync_errors", Metric: "log_fsync_errors_total", Type: Counter, JSON: "disk.syncErrors", Help: "Syncs of the log that failed.", read: func(s *State) Value { return Uint(s.Log.SyncErrors) }},
		Fact{Info: "log_last_sync_usec", JSON: "disk.lastSync", Help: "Duration of the last sync of the log.", read: func(s *State) Value { return Span(s.Log.LastSync) }},
		Fact{Info: "log_max_sync_usec", JSON: "disk.maxSync", Help: "Duration of the longest sync of the log.", read: func(s *State) Value { return Span(s.Log.MaxSync) }},
		Fact{Info: "log_torn_tail", Help: "What the start cut off the end of the log, and where it is saved; empty if nothing was cut.", read: func(s *State) Value { return Text(s.Snapshots.RecoveredTorn) }},
		Fact{Info: "log_unsynced_age_msec", Metric: "log_unsynced_age_seconds", Type: Gauge, JSON: "disk.unsynced", Help: "Upper bound of the age of the oldest change that is not on disk; 0 if there is none.",
			read: func(s *State) Value { return Span(s.Log.UnsyncedAge) }},
		Fact{Metric: "log_rewrites_total", Type: Counter, Help: "Attempts to write unsynced changes to a new segment after a disk error.", read: func(s *State) Value { return Uint(s.Log.Rewrites) }},
		Fact{Info: "snapshot_generation", JSON: "snapshot.generation", Help: "Number of the newest snapshot; 0 if there is none.", read: func(s *State) Value { return Uint(s.Snapshots.Generation) }},
		Fact{Info: "snapshot_blocks", JSON: "snapshot.blocks", Help: "Blocks in the newest snapshot.", read: func(s *State) Value { return Int(s.Snapshots.Blocks) }},
		Fact{Info: "snapshot_bytes", Metric: "snapshot_size_bytes", Type: Gauge, JSON: "snapshot.bytes", Help: "Size of all files of the newest snapshot.", read: func(s *State) Value { return Uint(s.Snapshots.Bytes) }},
		Fact{Info: "snapshot_replay_from", Unit: "log offset", Help: "Offset from which a start replays the log.", read: func(s *State) Value { return Uint(s.Snapshots.Replay) }},
		Fact{Metric: "snapshot_replay_bytes", Type: Gauge, JSON: "snapshot.behind", Help: "Length of the log that a start replays: the part after the newest snapshot.", read: func(s *State) Value { return Uint(s.Replay()) }},
		Fact{JSON: "snapshot.due", Help: "Length of the log after a snapshot at which the next one is made automatically; 0 means never.", read: func(s *State) Value { return Uint(s.Disk.Due) }},
		Fact{Info: "snapshots_failed", Metric: "snapshot_failures_total", Type: Counter, Help: "Snapshots that failed.", read: func(s *State) Value { return Int(s.Snapshots.Failed) }},
		Fact{JSON: "snapshot.error", Help: "Error of the last attempt to make a snapshot; absent if it succeeded.", read: func(s *State) Value {
			if s.Snapshots.LastErr == nil {
				return Unknown
			}
			return Text(Clip(s.Snapshots.LastErr.Error()))
		}},
		Fact{Metric: "snapshot_last_ok", Type: Gauge, Help: "1 unless the last attempt to make a snapshot failed.", read: func(s *State) Value { return Bool(s.Snapshots.LastErr == nil) }},
		Fact{Metric: "snapshot_last_duration_seconds", Type: Gauge, JSON: "snapshot.took", Help: "Duration of the last attempt to make a snapshot.", read: func(s *State) Value { return Span(s.Snapshots.LastTook) }},
		Fact{Metric: "snapshot_last_success_timestamp_seconds", Type: Gauge, JSON: "snapshot.at", Help: "Time of the newest snapshot; 0 if there is none.", read: func(s *State) Value { return Moment(s.Snapshots.LastTime) }},
		Fact{Metric: "snapshot_oldest_timestamp_seconds", Type: Gauge, Help: "Time of the oldest snapshot that is kept: how far back a restore can reach; 0 if there is none.", read: func(s *State) Value { return Moment(s.Snapshots.OldestTime) }},
		Fact{Info: "disk_written_bytes", Help: "Bytes written to the data directory: log, snapshots and cold files.", read: func(s *State) Value { return Uint(diskWritten(s)) }},
		Fact{Info: "disk_write_amplification", Unit: "ratio", Help: "disk_written_bytes divided by log_written_bytes.", read: func(s *State) Value {
			return Decimal(float64(diskWritten(s))/float64(max(1, s.Log.WrittenBytes)), 2)
		}},
		Fact{Info: "disk_total_bytes", Metric: "disk_size_bytes", Type: Gauge, JSON: "disk.total", Help: "Size of the file system of the data directory; absent if it is not known.",
			read: func(s *State) Value { return known(s.Disk.Total > 0, Int(s.Disk.Total)) }},
		Fact{Info: "disk_free_bytes", Metric: "disk_free_bytes", Type: Gauge, JSON: "disk.free", Help: "Free space of that file system; absent if it is not known.",
			read: func(s *State) Value { return known(s.Disk.FreeKnown(), Int(s.Disk.Free)) }},
		Fact{Info: "disk_reserve_bytes", Metric: "disk_reserve_bytes", Type: Gauge, JSON: "disk.reserve", Help: "Space that is kept free for the next snapshot: changes are refused when no more than this is left.",
			read: func(s *State) Value { return Int(s.Disk.Reserve) }},
		Fact{Info: "disk_low", Metric: "disk_low", Type: Gauge, JSON: "disk.low", Help: "1 while little free space is left beyond the reserve.", read: func(s *State) Value { return Bool(s.Disk.Low) }},
		Fact{Info: "disk_log_segments_dropped", Metric: "log_segments_dropped_early_total", Type: Counter, Help: "Log segments that aof-retain or a cursor of the feed asks to keep and that were deleted because the disk was almost full.",
			read: func(s *State) Value { return Int(s.Disk.Dropped) }}),
)
