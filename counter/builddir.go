package counter

import (
	"github.com/counterd/counterd/counter/internal/build"
	"github.com/counterd/counterd/persist/vfs"
)

// A build makes a data directory without a store.
type (
	// Build makes a data directory of posts that come in order of mid, at 5 to 10 times the rate of a server that is loaded:
	//
	//	b, err := counter.NewBuild("dir", counter.BuildOptions{Schema: s})
	//	err = b.Add(s.Counters()[0], posts) // any number of times, in order
	//	result, err := b.Finish()
	//
	// The directory is one that Open and counterd take as it is.
	Build = build.Build
	// BuildOptions of a build. Schema must be given; the zero value of each other field is its default.
	BuildOptions = build.BuildOptions
	// BuildResult counts the posts and files of a build.
	BuildResult = build.BuildResult
	// BuildOrderError is a post that does not come behind the one before it.
	BuildOrderError = build.BuildOrderError
	// Posts are posts of one counter in order of mid, as columns: Columns[c][i] is the value of post Mids[i] in the counter's
	// column c.
	Posts = build.Posts
)

// NewBuild begins a build of the directory out, which must not be there, or be empty: it is removed then. The leftovers of an earlier
// build to out are removed too; a build that is still at work gives vfs.ErrLocked.
func NewBuild(out string, opts BuildOptions) (*Build, error) { return build.NewBuild(out, opts) }

// Leftover returns the path of the leftovers of a build to out that was broken off, or "".
func Leftover(fsys vfs.FS, out string) string { return build.Leftover(fsys, out) }
