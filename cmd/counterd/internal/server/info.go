package server

import (
	"sync"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/facts"
	"github.com/counterd/counterd/counter"
)

// runInfo: INFO [section ...]. Unknown sections are ignored.
func runInfo(c *call, args [][]byte) {
	wanted := facts.Wanted(args[1:])
	parts := facts.InfoParts(wanted)
	if parts.Has(facts.PartConnections) {
		c.session.Handler().Publish()
	}
	s := c.srv.observe(parts)
	if parts.Has(facts.PartUsage) {
		s.Usage = c.usage()
	}
	if parts.Has(facts.PartPosts) {
		c.inspect(func(b *counter.Batch) { s.Posts = b.Items() })
	}
	if s.Process.Mode = c.mode(); s.Process.Mode != "cluster" { // clients of the forward port are not told of the cluster
		s.Cluster, s.Agent = nil, nil
	}
	c.items.Out.Text(facts.Info(s, wanted))
}

// inspect calls f with a batch that is open: that of the command, or one of its own. A closed store has none.
func (c *call) inspect(f func(b *counter.Batch)) {
	b := c.items.Batch
	if !b.Opened() {
		b = c.store.NewBatch()
		if b.Begin() != nil {
			return
		}
		defer b.End()
	}
	f(b)
}

// usage is what the posts of each counter take now. It looks at each block.
func (c *call) usage() (all []counter.Usage) {
	c.inspect(func(b *counter.Batch) {
		b.Blocks(func(i counter.BlockInfo) bool {
			if len(all) == 0 || all[len(all)-1].Counter != i.Counter.Name {
				all = append(all, counter.Usage{Counter: i.Counter.Name})
			}
			u := &all[len(all)-1]
			u.Overflows += int64(i.Overflows)
			if i.Tier == counter.TierHot {
				u.HotBlocks++
				u.HotItems += int64(i.Items)
				u.HotBytes += int64(i.Bytes)
				return true
			}
			u.ColdBlocks++
			u.ColdItems += int64(i.Items)
			u.ColdBytes += i.FileBytes
			u.IndexBytes += i.Index
			u.OverlayBytes += int64(i.Bytes)
			u.OverlayItems += int64(i.Overlay)
			if i.Overlay > 0 {
				u.OverlayBlocks++
			}
			if i.Lost {
				u.Unusable++
			}
			return true
		})
	})
	return all
}

// unsaved counts the changing commands that this node has executed since the last snapshot was made, or since the start:
// rdb_changes_since_last_save. It is asked at least once a second, so commands of the second in which a snapshot was made
// may be missing. Changes that come from a primary are not counted.
type unsaved struct {
	mu         sync.Mutex // guards the rest
	generation uint64     // of the snapshot
	before     int64      // commands that were executed when it was seen
}

// commands is the number.
func (u *unsaved) commands(s *Server) int64 {
	generation, calls := s.store().Admin().Snapshots().Generation, int64(0)
	s.commands.Each(func(cmd *row) {
		if cmd.Flags&command.Write != 0 {
			calls += cmd.Calls()
		}
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.generation != generation {
		u.generation, u.before = generation, calls
	}
	if calls < u.before { // CONFIG RESETSTAT
		u.before = 0
	}
	return calls - u.before
}
