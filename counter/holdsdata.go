package counter

import (
	"fmt"

	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/vfs"
)

// HoldsData tells whether a directory holds a store, readable or not. It changes nothing and takes no lock. A directory
// that does not exist holds none.
func HoldsData(dir string) (bool, error) {
	found, err := persist.HoldsData(vfs.OS(), dir)
	if err != nil {
		return false, fmt.Errorf("counter: looking for a store in %s: %w", dir, err)
	}
	return found, nil
}
