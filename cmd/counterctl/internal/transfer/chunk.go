package transfer

import (
	"context"
	"encoding/json"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
)

// Source is a source of numbers, which are read a chunk at a time. It is used by one goroutine.
type Source interface {
	// Name is the source's name, for people; it holds no secret.
	Name() string
	// Identity is the same as long as a position means the same: for a server its run id, for a file its size and time.
	// It is asked for after Seek and Next have returned, as a source may have to connect to know.
	Identity(ctx context.Context) (string, error)
	// Total is how many keys or rows there are about; 0: that is not known.
	Total() uint64
	// Seek says where the first Next begins; it is not called for the start.
	Seek(position json.RawMessage) error
	// Next fills a chunk, which is empty before, until it is Full, about; it has at most ChunkMax items. The error is
	// io.EOF when there are no more; the chunk with it counts. It waits for conditions that may pass by themselves, such as
	// a lost connection.
	Next(ctx context.Context, c *Chunk) error
	Close() error
}

// Marker is a Source that can tell whether it is changed while it is read.
type Marker interface {
	// Mark is the same as long as nothing is changed.
	Mark(ctx context.Context) (string, error)
}

// Chunk is a piece of a Source's data.
type Chunk struct {
	Items   []mapping.Item
	Keys    uint64 // keys or rows that were read, whether they map or not
	Skipped mapping.Tally
	// Position is where the next chunk begins; nil: this source must begin at its start again.
	Position json.RawMessage

	// Want is how many items to read, about; 0: ChunkSize.
	Want int
	// Most is how many keys or rows to read at most, about; 0: as many as fill the chunk.
	Most uint64
	// Explain asks for Examples of the data, a line each.
	Explain  int
	Examples []string
}

func (c *Chunk) reset() {
	*c = Chunk{Items: c.Items[:0], Want: c.Want, Most: c.Most, Explain: c.Explain}
}

// Full tells whether the chunk has as many items as are wanted.
func (c *Chunk) Full() bool {
	if c.Want == 0 {
		return len(c.Items) >= ChunkSize
	}
	return len(c.Items) >= c.Want
}
