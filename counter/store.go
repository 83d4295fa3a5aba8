package counter

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/counterd/counterd/counter/internal/arena"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/producers"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
)

// Store holds counters. All methods are safe for concurrent use.
//
// Lock order, outermost first. A goroutine takes a lock only while it holds none that stands further down.
//
//  1. snapshotter.mu, GroupExport.mu: one snapshot is made at a time; an export has one caller at a time
//  2. tiers.one: one block changes its tier, or is made again beside its readers, at a time
//  3. Replication.applying: held alone by a frame of the primary, an import and a change of role; shared while a block is
//     copied for a file
//  4. Store.gate: shared by every batch; exclusive for changes of the schema, MULTI/EXEC and FLUSHALL
//  5. Block.Mu: one at a time, with three exceptions. A new block that nobody can find yet may be locked beside it. A change
//     set locks its blocks in order of counter, keyspace and mid. A stretch waits for its first block only, and takes
//     others if they are free
//  6. ledger.mu, of Store.producers: from the look at a number to its entry. A numbered change may replace its block and
//     appends to the log while it is held. With it held the next operation's block is taken only if it is free
//  7. Keyspace.dirMu: to replace a directory, with the lock of the replaced block held
//  8. the arena's lock, the log's locks (package persist), and those that guard statistics, caches, pins and lineage: while
//     one of these is held, nobody takes a lock of 1 to 7
type Store struct {
	opts  Options
	arena arena.Arena

	gate   *gate
	closed bool                          // guarded by gate
	schema atomic.Pointer[schema.Schema] // written under gate held exclusively
	spaces []block.Space                 // by counter id, nil where dropped; guarded by gate
	// altered is the log offset behind the last change of everything: by FLUSHALL, or of the schema. Guarded by gate.
	altered uint64

	slotGroups bool // a counter's items are kept by group of hash slots; set before there are any
	own        block.Ownership
	disowned   slot.Set // that Own did not name
	moving     groupStates
	replica    atomic.Bool // written under gate held exclusively
	repl       Replication

	scans    scanCache
	repacker repacker
	blockIDs atomic.Uint64
	env      block.Environment // of all keyspaces
	tiers    tiers

	// nil where data is in memory only. The log is also nil while it is replayed.
	dir       *persist.Dir
	log       *persist.Log
	snapshots *snapshotter
	space     spaceWatch
	retention retention
	packing   packing
	replayed  uint64 // log offset up to which the start replayed

	changeSets atomic.Uint64 // of changes, made so far, and exclusive batches: see changeSet
	producers  ledger
}

// Open opens the store in a directory, which is made if it is not there, and returns when all that was acknowledged is
// back in memory. An empty dir keeps data in memory only. The error is of package persist: ErrLocked, ErrUnsupportedFormat,
// or a *CorruptError that names file and offset and the repair command.
func Open(dir string, opts Options) (*Store, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{opts: opts, gate: newGate(runtime.GOMAXPROCS(0))}
	s.repl.s = s
	s.schema.Store(schema.Empty())
	s.retention.bytes.Store(opts.RetainBytes)
	s.packing.on.Store(opts.CompressLog)
	s.tiers.init(opts.MaxMemory)
	s.repacker.init(opts.Manual)
	s.setSlotGroups(opts.SlotGroups)
	s.producers.table = producers.New(opts.Producers.withDefaults())
	if dir != "" {
		if err := (&recovery{s: s}).run(dir); err != nil {
			return nil, errors.Join(err, s.release())
		}
		s.snapshots.start(s)
		s.packing.start(s)
	}
	s.tiers.start(s)
	s.repacker.start(s)
	return s, nil
}

// Close waits for running batches, makes the log durable and frees all memory. Later calls answer ErrClosed.
func (s *Store) Close() error {
	s.repl.applying.Lock() // a change of the log's lineage is not left by half
	s.gate.Lock()
	was := s.closed
	s.closed = true
	s.gate.Unlock()
	s.repl.applying.Unlock()
	if was {
		return ErrClosed
	}
	s.tiers.stop()
	s.repacker.stop()
	s.packing.stop()
	if s.snapshots != nil {
		s.snapshots.stop()
	}
	return s.release()
}

// release closes files and frees memory.
func (s *Store) release() error {
	var errs []error
	for ks := range s.keyspaces {
		for _, b := range ks.Dir.Load().Blocks {
			s.tiers.Retire(b)
		}
	}
	if s.log != nil {
		err := s.log.Close()
		if err == nil {
			err = s.repl.boot.end(s)
		}
		errs = append(errs, err)
	}
	if s.dir != nil {
		errs = append(errs, s.dir.Close())
	}
	return errors.Join(append(errs, s.arena.Close())...)
}

// Schema returns the schema in force. It may have changed when the caller looks at it: see Batch for one that stands
// still.
func (s *Store) Schema() *schema.Schema { return s.schema.Load() }

// Alter is Store.Alter inside a batch. REQUIRES BeginExclusive.
func (b *Batch) Alter(st schema.Statement) error {
	s := b.s
	next, err := s.schema.Load().Apply(st)
	if err != nil {
		return err
	}
	return s.alter(b, next)
}

// alter puts next, which comes from the present schema, in force and logs it. REQUIRES b open by BeginExclusive.
func (s *Store) alter(b *Batch, next *schema.Schema) error {
	if next == s.schema.Load() {
		return nil
	}
	if s.log == nil {
		return s.setSchema(next)
	}
	if err := s.takesChanges(); err != nil {
		return err
	}
	text := string(next.AppendText(nil))
	if len(text) > format.MaxSchemaText {
		return fmt.Errorf("counter: the schema would take %d bytes, want at most %d", len(text), format.MaxSchemaText)
	}
	if err := s.setSchema(next); err != nil {
		return err
	}
	pos, err := s.log.AppendSchema(text)
	if err != nil {
		return err
	}
	b.pos, s.altered = pos, pos
	return nil
}

// maxCounterID bounds the ids of counters, which are never used again: spaces takes 24 bytes for each up to the highest,
// and a schema that a primary or a file brings may claim any. A counter that is dropped and made again each minute
// reaches it in two years.
const maxCounterID = 1 << 20

// checkIDs refuses a schema whose counters' ids are too high.
func checkIDs(s *schema.Schema) error {
	for _, def := range s.Counters() {
		if def.ID > maxCounterID {
			return fmt.Errorf("counter: %s would be counter %d of this data set, those dropped included, and there may be %d: dump the data into a new one", def.Name, def.ID, maxCounterID)
		}
	}
	return nil
}

// setSchema puts next in force. REQUIRES gate held exclusively.
func (s *Store) setSchema(next *schema.Schema) error {
	if err := checkIDs(next); err != nil {
		return err
	}
	// Everything that can fail comes before the first change.
	var added []*schema.Counter
	for _, def := range next.Counters() {
		if int(def.ID) >= len(s.spaces) || s.spaces[def.ID] == nil {
			added = append(added, def)
		} else if _, err := block.OverlayLayout(def); err != nil {
			return err
		}
	}
	fresh, err := s.newSpaces(added)
	if err != nil {
		return err
	}
	for _, sp := range fresh {
		for int(sp[0].ID) >= len(s.spaces) {
			s.spaces = append(s.spaces, nil)
		}
		s.spaces[sp[0].ID] = sp
	}
	changed := false
	for _, def := range next.Counters() {
		sp := s.spaces[def.ID]
		before := sp[0].Layout
		if err := sp.Define(def); err != nil {
			return err // never: it was tried above
		}
		changed = changed || sp[0].Layout != before
	}
	for id, sp := range s.spaces {
		if sp != nil && next.CounterByID(uint32(id)) == nil {
			sp.Free()
			s.spaces[id] = nil
		}
	}
	s.schema.Store(next)
	if changed {
		s.repacker.wake()
	}
	return nil
}

// renew puts empty keyspaces in the place of those chosen, or changes nothing. REQUIRES gate held exclusively.
func (s *Store) renew(chosen func(*block.Keyspace) bool) error {
	var fresh []*block.Keyspace
	for old := range s.keyspaces {
		if !chosen(old) {
			continue
		}
		ks, err := block.NewKeyspace(&s.env, old.Columns, old.Group)
		if err != nil {
			for _, ks := range fresh {
				ks.Free()
			}
			return err
		}
		fresh = append(fresh, ks)
	}
	for _, ks := range fresh {
		place := &s.spaces[ks.ID][ks.Group]
		(*place).Free()
		*place = ks
	}
	return nil
}

// Clear removes all items of all counters, or none on an error; the schema stays. REQUIRES BeginExclusive.
func (b *Batch) Clear() error {
	s := b.s
	if s.log != nil {
		if err := s.takesChanges(); err != nil {
			return err
		}
		if len(s.moving.importing) > 0 { // what comes would go on, without what came
			return ErrImporting
		}
	}
	if err := s.renew(func(*block.Keyspace) bool { return true }); err != nil {
		return err
	}
	if s.log != nil {
		b.pos = s.log.AppendFlush()
		s.altered = b.pos // that there is nothing is a change too
	}
	return nil
}

// Cold tells whether there are posts in cold files, which may have to be waited for.
func (s *Store) Cold() bool { return s.tiers.Some() }

// Items is the number of items of all counters. Where not all groups are owned and the store is not made of groups, it
// is estimated, as hash slots spread items evenly: to count would be to read all. REQUIRES the batch to be open.
func (b *Batch) Items() int {
	n, s := 0, b.s
	for ks := range s.keyspaces {
		if !s.hidden(ks) {
			n += countItems(b, ks)
		}
	}
	if s.slotGroups {
		return n
	}
	return s.own.Share(n)
}

// Adopt puts a schema in force that was made elsewhere, of the same one as this store's: what it has not is dropped. text
// is its durable form (schema.Schema.AppendText). REQUIRES BeginExclusive.
func (b *Batch) Adopt(text []byte) error {
	next, err := schema.ParseDurable(text)
	if err != nil {
		return err
	}
	if bytes.Equal(b.Schema().AppendText(nil), text) {
		return nil
	}
	return b.s.alter(b, next)
}

// AlterScript is Store.AlterScript inside a batch. REQUIRES BeginExclusive.
func (b *Batch) AlterScript(script string) error {
	next, err := schema.ParseScript(strings.NewReader(script), b.Schema())
	if err != nil {
		return err
	}
	return b.s.alter(b, next)
}
