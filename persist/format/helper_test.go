package format

import (
	"encoding/binary"
	"errors"

	"github.com/counterd/counterd/internal/testkit/filetest"
	"github.com/counterd/counterd/internal/testkit/seed"
)

var (
	le = binary.LittleEndian

	testHistory = History{ReplID: ReplID{1, 2, 3, 19: 9}, Epoch: 7}

	must, golden, newSeed = filetest.Must, filetest.Golden, seed.Of
)

const benchMid = 4_812_345_678_901_234

// isDamage reports whether an error says that bytes are damaged, and not that a newer program wrote them.
func isDamage(err error) bool {
	return errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnsupportedFormat)
}
