package snapfile

import (
	"fmt"
	"strings"

	"github.com/counterd/counterd/persist/format"
)

// MidRange is a range of mids, Hi exclusive.
type MidRange struct{ Lo, Hi uint64 }

func (r MidRange) String() string { return fmt.Sprintf("[%d, %d)", r.Lo, r.Hi) }

// BlockFault says what is wrong with a cold file, or with an image that no snapshot has a good one for, and for which
// mids; none where it is the image of producers. It matches ErrCorrupt.
type BlockFault struct {
	Path     string
	Counter  string
	Block    format.BlockFile
	Lost     []MidRange // mids whose rows cannot be read
	Unusable bool       // it cannot be opened at all: Lost is its whole range, and a snapshot that names it cannot be used
	Err      error
}

// Error names the file, the mids and the fault.
func (e *BlockFault) Error() string {
	ranges := make([]string, 0, 4)
	for i, r := range e.Lost {
		if i == 3 && len(e.Lost) > 4 {
			ranges = append(ranges, fmt.Sprintf("and %d more ranges", len(e.Lost)-i))
			break
		}
		ranges = append(ranges, r.String())
	}
	what := "damaged"
	if e.Unusable {
		what = "missing or cannot be opened"
	}
	if e.Block.Tier == format.TierProducers {
		return fmt.Sprintf("image %s (%d producers) is %s: their numbered writes cannot be told from repeats: %v", e.Path, e.Block.Items, what, e.Err)
	}
	file := "cold file"
	if e.Block.Tier != format.TierCold {
		file = "image"
	}
	return fmt.Sprintf("%s %s (counter %s, %d items) is %s; mids that cannot be read: %s: %v",
		file, e.Path, e.Counter, e.Block.Items, what, strings.Join(ranges, ", "), e.Err)
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *BlockFault) Is(target error) bool { return target == format.ErrCorrupt }

// Unwrap returns the fault.
func (e *BlockFault) Unwrap() error { return e.Err }

// UnusableBlock is the fault of a cold file that cannot be opened, or of an image.
func UnusableBlock(dir string, c *format.CounterFiles, b *format.BlockFile, err error) *BlockFault {
	f := &BlockFault{Path: b.Path(dir), Counter: c.Name, Block: *b, Unusable: true, Err: err}
	if b.Tier != format.TierProducers {
		f.Lost = []MidRange{{b.Lo, b.Hi}}
	}
	return f
}
