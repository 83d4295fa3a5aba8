package repl

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/sleep"
	"github.com/counterd/counterd/internal/wire"
)

// A cold file that is damaged takes the posts of a range with it, on this node alone. Another node of the same log has them: a
// replica asks its primary, and a primary its replicas. So a primary heals too, and nobody has to change a role. If no other node can
// give them, as its file is damaged, too, the same file may be among those that this node has set aside (counter.RegainRange).
//
//	this node, at the end X of its log                     the other node
//	REPLCONF rows <replid> <X> <counter> <group> <lo> <hi> -->  its log is of that term, and has come to X
//	                          <-- its posts from lo on, and the end Y of its log
//
// and so on until the range has come. When this node's log has reached Y too, the posts become a new file, with what this
// node knows of the range on top (counter.ReplaceRange). A term has one writer, so two logs that are in one term agree as
// far as both go. What arrives is checked as a comparison's posts are. Until then the posts answer IOERR, as before.
//
// The messages are those of a comparison (msgRows).
type refiller struct {
	node *Node

	ranges, posts, segments, failed atomic.Uint64
	notes                           atomic.Uint64 // small files that were written again

	retry    map[counter.PostRange]time.Time // not before; the goroutine's
	tries    map[counter.PostRange]int       // that failed
	retryLog map[uint64]time.Time            // as retry, by the start of a segment
	told     map[any]string                  // the last failure of a range, or of a segment by its start
}

const (
	// refillEvery is how often the node looks whether files were found damaged.
	refillEvery = 500 * time.Millisecond
	// refillAgain is how long a range rests behind a failure.
	refillAgain = 5 * time.Second
	// refillRows is how many posts are asked for at a time: less than maxCompareMessage.
	refillRows = 1024
	// refillRate bounds what is fetched, in bytes a second.
	refillRate = 8 << 20
	// refillWithin is how long an answer may take, and the log to reach what it speaks of.
	refillWithin = 10 * time.Second
)

// errNoHelper: nobody could be asked.
var errNoHelper = errors.New("no other node of the same log is connected")

// Refills counts the damage that was mended with the data of other nodes.
type Refills struct {
	Ranges, Posts uint64 // with damaged cold files
	Segments      uint64 // of the log
	Failed        uint64 // attempts
	Notes         uint64 // small files that were written again from memory
}

// Refilled counts since the process began.
func (n *Node) Refilled() Refills {
	r := &n.refills
	return Refills{Ranges: r.ranges.Load(), Posts: r.posts.Load(), Segments: r.segments.Load(), Failed: r.failed.Load(), Notes: r.notes.Load()}
}

// Refill gives ranges whose files are damaged the posts of other nodes, and damaged segments of the log their frames, until ctx
// ends.
func (n *Node) Refill(ctx context.Context) {
	for noted := time.Now(); ctx.Err() == nil; sleep.For(ctx, refillEvery) {
		n.refills.all(ctx)
		if time.Since(noted) >= notesEvery {
			n.refills.verifyNotes()
			noted = time.Now()
		}
	}
}

// all looks once.
func (f *refiller) all(ctx context.Context) {
	n := f.node
	store, done := n.host.Store(), false
	if n.Healing() != nil || !store.Durable() {
		return
	}
	f.logs(ctx, store)
	for _, r := range counter.DamagedRanges(store) {
		if ctx.Err() != nil || time.Now().Before(f.retry[r]) {
			continue
		}
		began := time.Now()
		posts, from, err := f.one(ctx, store, r)
		switch {
		case err == nil:
			done = true
			delete(f.retry, r)
			delete(f.tries, r)
			delete(f.told, r)
			f.ranges.Add(1)
			f.posts.Add(uint64(posts))
			n.logger.Warn("a range with a damaged file has its posts again", "counter", n.counterName(r), "lo", r.Lo, "hi", r.Hi,
				"items", posts, "from", from, "took", time.Since(began).Round(time.Millisecond))
		case ctx.Err() == nil:
			f.retry[r] = time.Now().Add(refillAgain)
			f.failed.Add(1)
			if f.tries[r]++; f.tries[r] >= mendBehind {
				f.tries[r] = 0
				f.wantMend()
			}
			if f.news(r, err) {
				n.logger.Warn("a range with a damaged file cannot be filled from another node yet", "counter", n.counterName(r), "lo", r.Lo, "hi", r.Hi, "error", err)
			}
		}
	}
	if done {
		if err := counter.RenewSnapshots(store); err != nil { // else the next start meets the damage again
			n.logger.Warn("no snapshot of the new files yet", "error", err)
		}
	}
}

// news tells whether a failure is another one than the last of the same range or segment: a node without replicas fails for as
// long as the damage lasts, and says so once.
func (f *refiller) news(what any, err error) bool {
	was := f.told[what]
	f.told[what] = err.Error()
	return was != err.Error()
}

// wantMend has the link ask for a full copy, if there is one.
func (f *refiller) wantMend() {
	n := f.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.link != nil {
		n.link.wantMend.Store(true)
	}
}

// helpers are the nodes whose log is this one's.
func (f *refiller) helpers() (list []Address) {
	n := f.node
	if l, ok := n.Link(); ok {
		if l.State == LinkConnected {
			list = append(list, l.Primary)
		}
		return list
	}
	for _, i := range n.peers.Infos() {
		if i.Online && !i.Watching && i.Port != 0 {
			list = append(list, Address{Host: i.IP, Port: i.Port})
		}
	}
	return list
}

// one gives one range the posts of another node, or else those of a file that this node has set aside.
func (f *refiller) one(ctx context.Context, store *counter.Store, r counter.PostRange) (posts int, from string, err error) {
	err = errNoHelper
	for _, a := range f.helpers() {
		var rows []counter.PostRow
		since, at, term := store.Replication().Position(), uint64(0), termOf(store)
		if rows, at, err = f.fetch(ctx, a, term, since, r); err != nil {
			continue
		}
		for end := time.Now().Add(refillWithin); store.Replication().Position() < at && time.Now().Before(end) && ctx.Err() == nil; {
			sleep.For(ctx, 10*time.Millisecond)
		}
		if termOf(store) != term { // what comes behind since may be of another writer
			err = counter.ErrElsewhere
			continue
		}
		if err = counter.ReplaceRange(store, r, since, at, rows); err == nil {
			return len(rows), a.String(), nil
		}
	}
	posts, aerr := counter.RegainRange(store, r)
	switch {
	case aerr == nil:
		return posts, "files that were set aside", nil
	case !errors.Is(aerr, counter.ErrNotAside):
		err = errors.Join(err, aerr)
	}
	return 0, "", err
}

// termOf names the term that a store's log is in.
func termOf(store *counter.Store) string {
	l := store.Replication().Lineage()
	return l.Current().ReplID.String()
}

// fetch asks a node for its posts of a range. at is the end of its log behind the last of them.
func (f *refiller) fetch(ctx context.Context, from Address, term string, since uint64, r counter.PostRange) (rows []counter.PostRow, at uint64, err error) {
	conn, err := f.node.settings().dial(ctx, from, wire.Options{Timeout: dialTimeout, Answer: refillWithin, Buffer: linkBuffer})
	if err != nil {
		return nil, 0, err
	}
	defer conn.Close()
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	end := time.Now().Add(refillWithin)
	for rest := r; rest.Lo < r.Hi; {
		text, err := f.ask(ctx, conn, maxCompareMessage, "rows", term, number(since), number(uint64(r.Counter)), number(uint64(r.Group)), number(rest.Lo), number(r.Hi))
		var later *wire.ServerError
		if errors.As(err, &later) && strings.HasPrefix(later.Text, "NOTYET ") && time.Now().Before(end) {
			sleep.For(ctx, 20*time.Millisecond)
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		q, some, err := parseRows(text)
		if err != nil {
			return nil, 0, err
		}
		if q.r.Counter != r.Counter || q.r.Group != r.Group || q.r.Lo != rest.Lo || q.r.Hi <= q.r.Lo || q.r.Hi > r.Hi || q.at < since {
			return nil, 0, fmt.Errorf("%w: posts of %+v at %d, want those from %d on at %d", ErrProtocol, q.r, q.at, rest.Lo, since)
		}
		rows, at, rest.Lo = append(rows, some...), max(at, q.at), q.r.Hi
	}
	return rows, at, nil
}

// ask sends REPLCONF with words to a node, and reads the answer, of most bytes at most. It takes the time of refillRate.
func (f *refiller) ask(ctx context.Context, conn *wire.Conn, most int64, words ...string) ([]byte, error) {
	s := &session{Link: &Link{node: f.node}, conn: conn}
	if err := s.tell(append([]string{"REPLCONF"}, words...)...); err != nil {
		return nil, err
	}
	size, err := s.readBulk()
	if err != nil {
		return nil, err
	}
	if size > most {
		return nil, fmt.Errorf("%w: REPLCONF %s is answered by %d bytes, want at most %d", ErrProtocol, words[0], size, most)
	}
	text, err := readSteps(&conn.Reader, int(size)+2)
	if err != nil {
		return nil, err
	}
	sleep.For(ctx, time.Duration(size)*time.Second/refillRate)
	return text[:size], ctx.Err()
}

// mayGive tells why this node gives no other node its data in a term; nil: it does.
func mayGive(n *Node, store *counter.Store, term string) error {
	switch {
	case n.Healing() != nil:
		return ErrFeedsNobody
	case termOf(store) != term:
		return errOtherTerm
	}
	return nil
}

var errOtherTerm = errors.New("NOMASTERLINK the log of this node is of another term")

// Rows answers REPLCONF rows: posts of this node from a mid on, as encodeRows has them without its head. The words are those
// behind rows.
func Rows(n *Node, words [][]byte) ([]byte, error) {
	if len(words) != 6 {
		return nil, fmt.Errorf("%w: REPLCONF rows with %d words, want 6", ErrProtocol, len(words))
	}
	var numbers [5]uint64
	for i := range numbers {
		var err error
		if numbers[i], err = strconv.ParseUint(string(words[i+1]), 10, 64); err != nil {
			return nil, fmt.Errorf("%w: REPLCONF rows: %w", ErrProtocol, err)
		}
	}
	store := n.host.Store()
	r := counter.PostRange{Counter: uint32(numbers[1]), Group: uint8(numbers[2]), Lo: numbers[3], Hi: numbers[4]}
	end := store.Replication().Position()
	if uint64(r.Counter) != numbers[1] || uint64(r.Group) != numbers[2] {
		return nil, fmt.Errorf("%w: REPLCONF rows: counter %d, group %d", ErrProtocol, numbers[1], numbers[2])
	}
	if err := mayGive(n, store, string(words[0])); err != nil {
		return nil, err
	}
	if end < numbers[0] {
		return nil, &notYetError{end}
	}
	var raw []byte
	err := counter.NewRangeCopier(store).Rows(r, refillRows, func(r counter.PostRange, at uint64, rows []counter.PostRow) {
		raw = encodeRows(&question{at: at, r: r}, rows)
	})
	if err != nil {
		return nil, err
	}
	return raw[5:], nil // without kind and length
}
