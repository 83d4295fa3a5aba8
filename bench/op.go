package bench

import "github.com/counterd/counterd/bench/postgen"

// OpKind tells operations apart.
type OpKind uint8

const (
	OpRow  OpKind = iota // set all counters of a post
	OpIncr               // add one to a counter
	OpGet                // read a counter
	OpPage               // read all counters of some posts
)

// Op is one operation of a workload, on posts by their index in the workload's Posts.
type Op struct {
	Kind OpKind
	Col  int
	Post int   // of all kinds but OpPage
	Page []int // of OpPage; the Stream owns the room, which the next operation takes again
}

// Workload is a kind of load: what the clients of a server ask of it.
type Workload interface {
	// Name is the workload's name on the command line.
	Name() string

	// Posts are the posts that the operations are about, and Rows their counters where an operation sets them.
	Posts() postgen.Posts
	Fill(post int, row []uint64)

	// Stream returns the operations of one client of several. Those of client w are the same whenever they are
	// drawn, provided that there are as many clients: that is how a run is verified. A Stream belongs to one goroutine.
	Stream(client, clients int) Stream
}

// Stream is a sequence of operations.
type Stream interface {
	// Next puts the next operation in op. It returns false at the end; most streams have none.
	Next(op *Op) bool
}

// Dataset is the posts of a run: generated ones, of which the first Loaded are there before other workloads start, and
// those to come, which have no counts yet.
type Dataset struct {
	Generated postgen.Posts // with posts to come behind the last
	Rows      *postgen.Rows
	Columns   int
	Loaded    int
	Arrived   int // posts that workloads have added beyond Loaded
}

// NewDataset returns a Dataset of n posts: GeneratedPosts, or ComputedPosts as a directory has that was built of them.
func NewDataset(n, columns int, seed uint64, computed bool) (*Dataset, error) {
	var posts postgen.Posts
	var err error
	if computed {
		posts, err = postgen.ComputePosts(n, seed)
	} else {
		posts, err = postgen.GeneratePosts(n, seed)
	}
	if err != nil {
		return nil, err
	}
	rows, err := postgen.NewRows(columns, seed)
	if err != nil {
		return nil, err
	}
	return &Dataset{Generated: posts, Rows: rows, Columns: columns, Loaded: n}, nil
}

// Posts returns the posts, also those to come.
func (d *Dataset) Posts() postgen.Posts { return d.Generated }

// Fill puts the counters that post i is set to in row.
func (d *Dataset) Fill(i int, row []uint64) {
	if i < d.Loaded {
		d.Rows.Fill(i, row)
		return
	}
	clear(row)
}
