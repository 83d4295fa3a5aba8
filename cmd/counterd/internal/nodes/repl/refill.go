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
	"github.com/counterd/counterd/internal/wire"
)

// A cold file that is damaged takes the posts of a range with it, on this node alone. Another node of the same log has them: a
// replica asks its primary, and a primary its replicas. So a primary heals too, and nobody has to change a role.
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

	ranges, posts, failed atomic.Uint64
	retry                 map[counter.PostRange]time.Time // not before; the goroutine's
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

// Refilled is how many ranges with damaged files got the posts of another node, how many posts those had, and how often
// that failed.
func (n *Node) Refilled() (ranges, posts, failed uint64) {
	r := &n.refills
	return r.ranges.Load(), r.posts.Load(), r.failed.Load()
}

// Refill gives ranges whose files are damaged the posts of other nodes, until ctx ends.
func (n *Node) Refill(ctx context.Context) {
	n.refills.retry = map[counter.PostRange]time.Time{}
	for ctx.Err() == nil {
		n.refills.all(ctx)
		sleep(ctx, refillEvery)
	}
}

// all looks once.
func (f *refiller) all(ctx context.Context) {
	n := f.node
	store, done := n.host.Store(), false
	if n.Healing() != nil || !store.Durable() {
		return
	}
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
			f.ranges.Add(1)
			f.posts.Add(uint64(posts))
			n.logger.Warn("a range with a damaged file has the posts of another node now", "counter", n.counterName(r), "lo", r.Lo, "hi", r.Hi,
				"items", posts, "replica", from.String(), "took", time.Since(began).Round(time.Millisecond))
		case ctx.Err() == nil:
			f.retry[r] = time.Now().Add(refillAgain)
			f.failed.Add(1)
			n.logger.Warn("a range with a damaged file cannot be filled from another node yet", "counter", n.counterName(r), "lo", r.Lo, "hi", r.Hi, "error", err)
		}
	}
	if done {
		if err := store.Snapshot(); err != nil { // else the next start meets the damage again
			n.logger.Warn("no snapshot of the new files yet", "error", err)
		}
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

// one gives one range the posts of another node.
func (f *refiller) one(ctx context.Context, store *counter.Store, r counter.PostRange) (posts int, from Address, err error) {
	err = errNoHelper
	for _, from = range f.helpers() {
		var rows []counter.PostRow
		since, at, term := store.Replication().Position(), uint64(0), termOf(store)
		if rows, at, err = f.fetch(ctx, from, term, since, r); err != nil {
			continue
		}
		for end := time.Now().Add(refillWithin); store.Replication().Position() < at && time.Now().Before(end) && ctx.Err() == nil; {
			sleep(ctx, 10*time.Millisecond)
		}
		if termOf(store) != term { // what comes behind since may be of another writer
			err = counter.ErrElsewhere
			continue
		}
		if err = counter.ReplaceRange(store, r, since, at, rows); err == nil {
			return len(rows), from, nil
		}
	}
	return 0, from, err
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
	s := &session{Link: &Link{node: f.node}, conn: conn}
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	end := time.Now().Add(refillWithin)
	for rest := r; rest.Lo < r.Hi; {
		if err := s.tell("REPLCONF", "rows", term, number(since), number(uint64(r.Counter)), number(uint64(r.Group)), number(rest.Lo), number(r.Hi)); err != nil {
			return nil, 0, err
		}
		size, err := s.readBulk()
		var later *wire.ServerError
		if errors.As(err, &later) && strings.HasPrefix(later.Text, "NOTYET ") && time.Now().Before(end) {
			sleep(ctx, 20*time.Millisecond)
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		if size > maxCompareMessage {
			return nil, 0, fmt.Errorf("%w: posts of %d bytes, at most %d", ErrProtocol, size, maxCompareMessage)
		}
		text, err := readSteps(&conn.Reader, int(size)+2)
		if err != nil {
			return nil, 0, err
		}
		q, some, err := parseRows(text[:size])
		if err != nil {
			return nil, 0, err
		}
		if q.r.Counter != r.Counter || q.r.Group != r.Group || q.r.Lo != rest.Lo || q.r.Hi <= q.r.Lo || q.r.Hi > r.Hi || q.at < since {
			return nil, 0, fmt.Errorf("%w: posts of %+v at %d, want those from %d on at %d", ErrProtocol, q.r, q.at, rest.Lo, since)
		}
		rows, at, rest.Lo = append(rows, some...), max(at, q.at), q.r.Hi
		sleep(ctx, time.Duration(size)*time.Second/refillRate)
		if ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
	}
	return rows, at, nil
}

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
	switch end := store.Replication().Position(); {
	case uint64(r.Counter) != numbers[1] || uint64(r.Group) != numbers[2]:
		return nil, fmt.Errorf("%w: REPLCONF rows: counter %d, group %d", ErrProtocol, numbers[1], numbers[2])
	case n.Healing() != nil:
		return nil, errors.New("NOMASTERLINK " + ErrHealing.Error())
	case termOf(store) != string(words[0]):
		return nil, errors.New("NOMASTERLINK the log of this node is of another term")
	case end < numbers[0]:
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
