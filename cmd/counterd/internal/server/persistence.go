package server

import (
	"errors"
	"fmt"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/counter"
)

// SAVE and its kin, and what INFO tells of data on disk. Redis has two ways to keep data and counterd one: a log that
// snapshots shorten. It is shown as an append only file, and its snapshots as saves.

func persistenceCommands() []*row {
	entry := func(name string, arity int, flags command.Flags, syntax, summary string, run func(*call, [][]byte)) *row {
		return &row{Name: name, Arity: arity, Flags: flags, Group: "server", Since: "1.0.0", Complexity: "O(N) in the size of the changed blocks",
			Syntax: syntax, Summary: summary, Run: on(run)}
	}
	lastSave := entry("lastsave", 1, command.Loading|command.Stale|command.Fast, "", "Returns the Unix time of the last snapshot, or of the server start if there is none.",
		func(c *call, _ [][]byte) { c.Out.Int(c.srv.lastSave()) })
	lastSave.Complexity = "O(1)"
	return []*row{
		lastSave,
		entry("save", 1, command.Admin|command.NoScript|command.NoAsyncLoading|command.NoMulti, "", "Makes a snapshot and replies when it is complete. Other connections are served meanwhile.", runSave),
		entry("bgsave", -1, command.Admin|command.NoScript|command.NoAsyncLoading, "[SCHEDULE]", "Starts a snapshot in the background.",
			background("Background saving started", "ERR Background save already in progress")),
		entry("bgrewriteaof", 1, command.Admin|command.NoScript|command.NoAsyncLoading, "", "Starts a snapshot in the background, after which older log segments can be removed.",
			background("Background append only file rewriting started", "ERR Background append only file rewriting already in progress")),
	}
}

// lastSave is when the newest snapshot was made, in unix seconds, as LASTSAVE has it.
func (s *Server) lastSave() int64 {
	if last := s.store().Admin().Snapshots().LastTime; !last.IsZero() {
		return last.Unix()
	}
	return s.started.Unix()
}

func runSave(c *call, _ [][]byte) {
	switch err := c.srv.store().Snapshot(); {
	case err == nil:
		c.Out.Status("OK")
	case errors.Is(err, counter.ErrInMemory):
		c.Out.Error(items.ErrMemoryOnly)
	case errors.Is(err, counter.ErrBusy):
		c.Out.Error("ERR Background save already in progress")
	default:
		c.Out.Error(items.ErrorText(err))
	}
}

// background makes a command that starts a snapshot. How it ends is told by the log, INFO and LASTSAVE.
func background(started, busy string) func(*call, [][]byte) {
	return func(c *call, args [][]byte) {
		store := c.srv.store()
		switch {
		case len(args) > 2 || len(args) == 2 && !resp.EqualFold(args[1], "SCHEDULE"):
			c.Out.Error(items.ErrSyntax)
		case !store.Durable():
			c.Out.Error(items.ErrMemoryOnly)
		case store.Admin().Snapshots().Running:
			c.Out.Error(busy)
		default:
			go func() { _ = store.Snapshot() }() // the store's Close waits for it
			c.Out.Status(started)
		}
	}
}

// infoPersistence has the fields of Redis, and then those of the log.
func infoPersistence(c *call, t *infoText) {
	infoLoading(c, t)
	store := c.srv.store()
	saves, log := store.Admin().Snapshots(), store.Admin().LogStats()
	flag := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	status := func(err error) string {
		if err != nil {
			return "err"
		}
		return "ok"
	}
	last, current := -1, -1
	if !saves.LastStarted.IsZero() {
		last = int(saves.LastTook / time.Second)
	}
	if saves.Running {
		current = 0
	}
	durability := "none"
	if store.Durable() {
		durability = "appendfsync " + c.srv.config.Get().AppendFsync
	}
	t.field("durability", durability)
	t.field("in_memory_only", flag(!c.srv.config.Get().AppendOnly))
	t.field("rdb_changes_since_last_save", c.srv.unsaved.commands(c.srv))
	t.field("rdb_bgsave_in_progress", flag(saves.Running))
	t.field("rdb_last_save_time", c.srv.lastSave())
	t.field("rdb_last_bgsave_status", status(saves.LastErr))
	t.field("rdb_last_bgsave_time_sec", last)
	t.field("rdb_current_bgsave_time_sec", current)
	t.field("rdb_saves", saves.Made)
	t.field("aof_enabled", flag(store.Durable()))
	t.field("aof_rewrite_in_progress", flag(saves.Running))
	t.field("aof_rewrite_scheduled", 0)
	t.field("aof_last_rewrite_time_sec", last)
	t.field("aof_current_rewrite_time_sec", current)
	t.field("aof_last_bgrewrite_status", status(saves.LastErr))
	t.field("aof_last_write_status", status(store.Ready()))
	if !store.Durable() {
		return
	}
	t.field("aof_current_size", log.DiskBytes)
	t.field("aof_base_size", saves.Bytes)
	t.field("log_position", log.Position)
	t.field("log_durable", log.Durable)
	t.field("log_first", log.First)
	t.field("log_segments", log.Segments)
	t.field("log_bytes", log.SegmentBytes)
	t.field("log_disk_bytes", log.DiskBytes)
	t.field("log_compressed_segments", log.Packed)
	t.field("log_compressed_bytes", log.PackedBytes)
	t.field("log_compressed_disk_bytes", log.PackedDisk)
	t.field("log_writes", log.Writes)
	t.field("log_written_bytes", log.WrittenBytes)
	t.field("log_syncs", log.Syncs)
	t.field("log_sync_errors", log.SyncErrors)
	t.field("log_last_sync_usec", log.LastSync.Microseconds())
	t.field("log_max_sync_usec", log.MaxSync.Microseconds())
	t.field("log_torn_tail", saves.RecoveredTorn) // what the start cut, and where it is kept; empty: nothing
	t.field("log_unsynced_age_msec", log.UnsyncedAge.Milliseconds())
	t.field("snapshot_generation", saves.Generation)
	t.field("snapshot_blocks", saves.Blocks)
	t.field("snapshot_bytes", saves.Bytes)
	t.field("snapshot_replay_from", saves.Replay)
	t.field("snapshots_failed", saves.Failed)
	written := log.WrittenBytes + saves.Written + uint64(store.Admin().TierCounts().Written)
	t.field("disk_written_bytes", written)
	t.field("disk_write_amplification", fmt.Sprintf("%.2f", float64(written)/float64(max(1, log.WrittenBytes))))
	disk := store.Admin().Disk()
	if disk.Free == counter.FreeUnknown {
		disk.Free = 0
	}
	t.field("disk_total_bytes", disk.Total)
	t.field("disk_free_bytes", disk.Free)
	t.field("disk_reserve_bytes", disk.Reserve)
	t.field("disk_low", flag(disk.Low))
	t.field("disk_log_segments_dropped", disk.Dropped)
}

// infoLoading tells whether the server still reads its data: clients wait for "loading:0".
func infoLoading(c *call, t *infoText) {
	l := &c.srv.progress
	if !l.active() {
		t.field("loading", 0)
		t.field("async_loading", 0)
		return
	}
	st := l.state()
	t.field("loading", 1)
	t.field("async_loading", 0)
	t.field("loading_start_time", st.began.Unix())
	t.field("loading_total_bytes", st.total)
	t.field("loading_loaded_bytes", st.done)
	t.field("loading_loaded_perc", fmt.Sprintf("%.2f", 100*float64(st.done)/float64(max(1, st.total))))
	t.field("loading_eta_seconds", int64((st.eta+time.Second-1)/time.Second))
}
