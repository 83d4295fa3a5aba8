package cluster

import (
	"fmt"

	"github.com/counterd/counterd/cmd/counterctl/internal/human"
)

// derivedTally counts the posts of a derived column that were restored.
type derivedTally struct {
	name   string // with its counter's
	posts  int    // that have additions in the backup
	counts int    // of those, that still count
}

func (t *derivedTally) String() string {
	posts := human.Count(t.posts, "post")
	if t.counts == t.posts {
		return fmt.Sprintf("%s: %s with additions", t.name, posts)
	}
	return fmt.Sprintf("%s: %s with additions; those of %d count no more", t.name, posts, t.posts-t.counts)
}
