package counter

import (
	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/counter/internal/feed"
	"github.com/counterd/counterd/persist/format"
)

// Feeds of changes: see package feed.
type (
	// FeedSource opens feeds of a store's log: see Store.Feeds.
	FeedSource = feed.Source
	// Feed reads the changes of a store's log, one after the other.
	Feed = feed.Feed
	// FeedFilter says which parts of changes a feed gives. The zero value lets all pass.
	FeedFilter = feed.Filter
	// FeedPosition is a place between two changes of a log.
	FeedPosition = feed.Position
	// FeedPositions writes many positions as text.
	FeedPositions = feed.Writer
	// FeedChange is one change of the log.
	FeedChange = feed.Change
	// FeedPart is the part of a change that concerns one post, or all of them.
	FeedPart = feed.Part
	// FeedValue is a column and a value of it.
	FeedValue = feed.Value
	// FeedOld has the values before a part of a change.
	FeedOld = feed.Old
	// FeedKind says what a part of a change did.
	FeedKind = feed.Kind
	// FeedLatest merges changes to the last values of each post.
	FeedLatest = feed.Latest

	// FeedCursor is a named place in the feed.
	FeedCursor = format.Cursor
	// FeedCursorState is a cursor and how far it is behind.
	FeedCursorState = feed.CursorState
	// CursorsFullError says that there are as many cursors as there may be.
	CursorsFullError = core.CursorsFullError
	// CursorNameError says that a text is no name of a cursor.
	CursorNameError = core.CursorNameError

	// FeedGoneError says that the log no longer reaches back to a position.
	FeedGoneError = feed.GoneError
	// FeedHistoryError says that a position lies in a part of another log that this one does not have.
	FeedHistoryError = feed.HistoryError
)

// Kinds of parts of changes.
const (
	FeedSet    = feed.Set    // columns of a post have new values; the post is made if it was not there
	FeedDel    = feed.Del    // a post is gone
	FeedFlush  = feed.Flush  // all posts of all counters are gone
	FeedSchema = feed.Schema // the schema is another
	FeedGain   = feed.Gain   // groups of hash slots are this log's from here on
	FeedLose   = feed.Lose   // groups of hash slots are another log's from here on, and their posts are gone here
	FeedDrop   = feed.Drop   // all posts of a range of mids of a counter are gone
)

// Errors of feeds.
var (
	// ErrFeedMalformed: a text is no position, or a position is none of this log.
	ErrFeedMalformed = feed.ErrMalformed
	// ErrNoCursor: there is no cursor of that name.
	ErrNoCursor = core.ErrNoCursor
	// ErrFeedUnsettled: the position of now cannot be told yet. The same goes well in a moment.
	ErrFeedUnsettled = feed.ErrUnsettled
	// ErrFeedUnreadable: the disk does not give a part of the log, or a file of the log is gone.
	ErrFeedUnreadable = feed.ErrUnreadable
)

// CursorsOf are the named cursors of the feed as a batch sees and changes them. REQUIRES the batch to be open while they are used.
func CursorsOf(b *Batch) core.BatchCursors { return core.CursorsOf(b) }

// ValidCursorName tells whether a text is a name of a cursor.
func ValidCursorName[T string | []byte](name T) bool { return format.ValidCursorName(name) }

// MoveFrom is the id for Groups.Accept that also names the place of the source's log behind which nothing of the groups follows: see
// package format of persist.
func MoveFrom(move string, shard, offset uint64) string { return format.MoveFrom(move, shard, offset) }

// ParseFeedPosition is the inverse of FeedPosition.String. The error matches ErrFeedMalformed.
func ParseFeedPosition(text string) (FeedPosition, error) { return feed.ParsePosition(text) }

// Feeds opens feeds of the store's log.
//
// A feed is given the offset up to which changes may be shown. No crash of this node takes back changes below Replication.Durable.
// The primary of a replica may lose more, and in a cluster the other nodes must have the changes (Replication.Confirmed).
func (s *Store) Feeds() FeedSource { return feed.NewSource(&s.data, s.repl) }

// Cursors returns the named cursors of the feed by name, and how far each is behind. It reads the log.
func (s *Store) Cursors() []FeedCursorState {
	if s.data.Log == nil {
		return nil
	}
	return s.cursors.Look()
}

// CursorsFrom returns the lowest log offset that a cursor of the feed needs, of the log that is kept.
func CursorsFrom(s *Store) (offset uint64, ok bool) { return s.data.Cursors.From(s.repl.First()) }

// Cursors is Store.Cursors as of the last look, which is one second old at most where background work is done. It reads nothing.
func (a Admin) Cursors() []FeedCursorState {
	if a.s.data.Log == nil {
		return nil
	}
	return a.s.cursors.Last()
}
