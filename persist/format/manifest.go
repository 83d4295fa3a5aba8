package format

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/counterd/counterd/internal/slot"
)

// Tier says what a block's file is.
type Tier string

// Tiers.
const (
	TierHot     Tier = "hot"     // image of a hot block, in rdb/
	TierCold    Tier = "cold"    // cold file, in cold/
	TierOverlay Tier = "overlay" // image of the overlay of a cold block, in rdb/

	TierProducers Tier = "producers" // image of the table of producers, which is no block, in rdb/
)

// suffix is how the names of its files end.
func (t Tier) suffix() string {
	if t == TierCold {
		return ColdSuffix
	}
	return ImageSuffix
}

// BlockFile is a block as a manifest lists it.
type BlockFile struct {
	Tier  Tier
	Group uint8  // of hash slots, where Manifest.SlotGroups
	Block uint64 // id
	// Range of mids, Hi exclusive; ranges of hot and cold blocks of a counter, or of a group of it, are disjoint and ascend.
	Lo, Hi uint64
	// Offset is the log offset it counts as standing at. The file's own, where it was written, is lower where the block
	// did not change since, and may be higher after a repair cut the log.
	Offset uint64
	Items  uint64
	Bytes  uint64 // file size
	CRC    uint32 // identifies the file's content
	Name   string // base name
}

// Path returns the file's path below the data directory dir.
func (b *BlockFile) Path(dir string) string {
	if b.Tier == TierCold {
		return filepath.Join(ColdDir(dir), b.Name)
	}
	return filepath.Join(ImageDir(dir), b.Name)
}

// CounterFiles are the blocks of one counter.
type CounterFiles struct {
	ID         uint32
	Name       string
	NextColumn uint16 // the next column's id
	Blocks     []BlockFile
}

// Manifest is a snapshot: the block files and the log offset to replay from. It is durable as one, or not there.
type Manifest struct {
	Generation uint64 // in the file's name; higher is newer
	History    History
	OldReplID  ReplID // the history before, valid up to OldEnd; zero: none
	OldEnd     uint64
	TimeMS     int64  // wall time of the snapshot, ms since 1970
	Offset     uint64 // the highest log offset that counts as durable: replay must reach it
	Replay     uint64 // replay begins here: <= every block's Offset and the schema's

	// LogPacked: segments of the directory's log may be packed. It says nothing of the snapshot; programs that know no
	// packed segments must not open the directory.
	LogPacked bool

	// SlotGroups: a counter's items are kept by group of hash slots (package slot), in blocks of their own. A group without
	// items may have none.
	SlotGroups bool

	NextCounter uint32
	NextBlock   uint64
	Schema      []string // statements that make the schema as it was at Replay, in order
	Counters    []CounterFiles
	Moving      []MovingGroups // groups of hash slots that were not here at Replay, by move
	Cursors     []Cursor       // by name; some may stand behind Replay
	Tick        uint64         // time of the last tick, in seconds since 1970; 0: there was none. It may stand behind Replay
	Producers   *BlockFile     // nil: there were none at Replay. Lo and Hi mean nothing, Items are producers
}

// MovingGroups are groups of hash slots that are on their way here by a move, or have gone elsewhere.
type MovingGroups struct {
	Move   string // empty: they have gone
	Groups slot.Set
}

// Size is how many files the snapshot names, and their bytes.
func (m *Manifest) Size() (files int, bytes uint64) {
	_ = m.Files(func(_ *CounterFiles, b *BlockFile) error { // fn returns nil
		files++
		bytes += b.Bytes
		return nil
	})
	return files, bytes
}

// noCounter is the counter of the image of producers.
var noCounter CounterFiles

// Files calls fn for each file until it returns an error: for those of the blocks, and for the image of the producers,
// whose counter is one without an id, a name and blocks.
func (m *Manifest) Files(fn func(c *CounterFiles, b *BlockFile) error) error {
	for i := range m.Counters {
		c := &m.Counters[i]
		for j := range c.Blocks {
			if err := fn(c, &c.Blocks[j]); err != nil {
				return err
			}
		}
	}
	if m.Producers != nil {
		return fn(&noCounter, m.Producers)
	}
	return nil
}

// maxCount bounds generations, block ids and log offsets: at a billion a second they last for a century.
const maxCount = 1 << 62

// Validate reports every rule the manifest breaks.
func (m *Manifest) Validate() error {
	var errs []error
	wrong := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("manifest: "+format, args...))
		}
	}
	wrong(m.Generation == 0, "generation: want at least 1, got 0")
	// What a directory counts on from here must have room to: a number that wraps is given twice.
	wrong(m.Generation > maxCount, "generation %d, want at most %d", m.Generation, uint64(maxCount))
	wrong(m.NextBlock > maxCount, "next block %d, want at most %d", m.NextBlock, uint64(maxCount))
	wrong(m.Offset > maxCount, "offset %d, want at most %d", m.Offset, uint64(maxCount))
	wrong(m.Replay > m.Offset, "replay %d is behind offset %d", m.Replay, m.Offset)
	wrong(m.TimeMS < 0, "time %d is before 1970", m.TimeMS)
	for _, line := range m.Schema {
		wrong(len(line) > MaxSchemaText, "schema statement of %d bytes, at most %d", len(line), MaxSchemaText)
	}
	for i, v := range m.Moving {
		wrong(v.Groups == slot.Set{}, "no groups of move %q", v.Move)
		wrong(len(v.Move) > MaxMoveID, "move's id of %d bytes, at most %d", len(v.Move), MaxMoveID)
		wrong(i > 0 && m.Moving[i-1].Move >= v.Move, "move %q stands behind %q", v.Move, m.Moving[max(i, 1)-1].Move)
	}
	wrong(len(m.Cursors) > MaxCursors, "%d cursors, want at most %d", len(m.Cursors), MaxCursors)
	for i, c := range m.Cursors {
		err := c.validate()
		wrong(err != nil, "cursor: %v", err)
		wrong(i > 0 && m.Cursors[i-1].Name >= c.Name, "cursor %q stands behind %q", c.Name, m.Cursors[max(i, 1)-1].Name)
	}
	wrong(m.Tick > MaxTick, "tick %d, want at most %d", m.Tick, uint64(MaxTick))
	files := map[string]bool{}
	file := func(b *BlockFile) {
		wrong(b.Block >= m.NextBlock, "block %d, but the next id is %d", b.Block, m.NextBlock)
		wrong(b.Offset < m.Replay || b.Offset > m.Offset, "block %d: offset %d is not in [%d, %d]", b.Block, b.Offset, m.Replay, m.Offset)
		wrong(!isBlockName(b.Tier, b.Name), "block %d: %q is no name of a file of tier %s", b.Block, b.Name, b.Tier)
		path := b.Path("")
		wrong(files[path], "block %d: file %q stands twice", b.Block, path)
		files[path] = true
	}
	if p := m.Producers; p != nil {
		wrong(p.Tier != TierProducers || p.Lo != 0 || p.Hi != 0, "producers of tier %q and range [%d, %d)", p.Tier, p.Lo, p.Hi)
		file(p)
	}
	for _, c := range m.Counters {
		wrong(c.ID >= m.NextCounter, "counter %d, but the next id is %d", c.ID, m.NextCounter)
		end := map[bool]uint64{} // of the last range, overlays apart
		group := uint8(0)
		for _, b := range c.Blocks {
			wrong(b.Group < group || b.Group > 0 && !m.SlotGroups, "block %d: group %d behind group %d", b.Block, b.Group, group)
			if b.Group != group {
				group, end = b.Group, map[bool]uint64{}
			}
			switch b.Tier {
			case TierHot, TierCold, TierOverlay:
			default:
				wrong(true, "block %d: unknown tier %q", b.Block, b.Tier)
			}
			overlay := b.Tier == TierOverlay
			wrong(b.Lo >= b.Hi, "block %d: empty range [%d, %d)", b.Block, b.Lo, b.Hi)
			wrong(b.Lo < end[overlay], "block %d: range starts at %d, the one before ends at %d", b.Block, b.Lo, end[overlay])
			file(&b)
			end[overlay] = b.Hi
		}
	}
	return errors.Join(errs...)
}

// IsBaseName reports whether a name stays in its directory.
func IsBaseName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\\\x00")
}
