package snapfile

import (
	"encoding/binary"
	"errors"

	"github.com/counterd/counterd/internal/testkit/filetest"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/persist/format"
)

const testDir = filetest.Dir

var (
	le = binary.LittleEndian

	must, golden, newFS, newSeed = filetest.Must, filetest.Golden, filetest.NewFS, seed.Of
)

// isDamage reports whether an error says that bytes are damaged, and not that a newer program wrote them.
func isDamage(err error) bool {
	return errors.Is(err, format.ErrCorrupt) && !errors.Is(err, format.ErrUnsupportedFormat)
}
