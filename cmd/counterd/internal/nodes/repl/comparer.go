package repl

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/sleep"
	"github.com/counterd/counterd/schema"
)

// comparer is the primary's side of comparing (compare.go): one goroutine that walks over all posts of the node, again and
// again, while there is a replica that compares. All replicas are asked about a range at a time, so a copy and its digests
// are made once.
type comparer struct {
	peers *Peers
	node  *Node
	pass  time.Duration // how long a walk over all posts takes at least
	rest  time.Duration // between two ranges

	mu      sync.Mutex // guards these
	members int
	cancel  context.CancelFunc

	one    sync.Mutex // held by the goroutine at work, and guards the rest
	cursor counter.Cursor
	copier *counter.RangeCopier
	store  *counter.Store // of copier
	id     uint64
	work   budget
	failed uint64 // ranges that could not be mended in this pass
}

const (
	// answerWithin is how long a replica may take for its digests: at 0.5 % of a processor, 64 Ki posts take it 1 s.
	answerWithin = 30 * time.Second
	// compareTries is how often a range is asked for again, as a replica's log did not end at the offset.
	compareTries = 5
	// leastPass is comparer.pass: where there are few posts, it saves the work of empty walks.
	leastPass = time.Minute
	// leastRest is comparer.rest.
	leastRest = 10 * time.Millisecond
	// mendShare is the share of a processor while posts are mended.
	mendShare = 0.1
	// maxMendRounds bounds the questions about one range that differs.
	maxMendRounds = 4096
)

// compareAnswer is a replica's answer to a question.
type compareAnswer struct {
	id     uint64
	word   string
	lo, hi uint64 // of saysDiffers; lo: the posts of saysMended
}

// Compared takes an answer of the replica: REPLCONF compare <id> <word> [<number> [<number>]].
func (p *Peer) Compared(args [][]byte) error {
	if len(args) < 2 || len(args) > 4 {
		return fmt.Errorf("%w: REPLCONF compare with %d words", ErrProtocol, len(args))
	}
	a := compareAnswer{word: string(args[1])}
	for i, n := range []*uint64{&a.id, nil, &a.lo, &a.hi} {
		if n == nil || i >= len(args) {
			continue
		}
		var err error
		if *n, err = strconv.ParseUint(string(args[i]), 10, 64); err != nil {
			return fmt.Errorf("%w: REPLCONF compare: %w", ErrProtocol, err)
		}
	}
	if p.asked.Load() != a.id || a.id == 0 {
		return nil // too late
	}
	select {
	case p.answers <- a:
	default: // it was answered
	}
	return nil
}

// joined is called when a replica that compares is fed.
func (c *comparer) joined() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.members++; c.members > 1 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	go c.run(ctx)
}

// left is called when it is not any more.
func (c *comparer) left() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.members--; c.members == 0 {
		c.cancel()
	}
}

// run walks until ctx ends.
func (c *comparer) run(ctx context.Context) {
	c.one.Lock()
	defer c.one.Unlock()
	c.work = budget{ctx: ctx, share: c.node.compareShare}
	began, whole := time.Now(), c.cursor == counter.Cursor{}
	for ctx.Err() == nil {
		peers := c.online()
		if len(peers) == 0 || c.node.settings().CompareBudget <= 0 {
			sleep.For(ctx, time.Second)
			continue
		}
		more, err := c.next(peers)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, counter.ErrClosed) { // it is being opened again
			sleep.For(ctx, time.Second)
			continue
		}
		if more && err == nil {
			c.work.settle(c.rest)
			continue
		}
		took := time.Since(began)
		if whole && err == nil {
			c.node.compared.change(func(i *CompareInfo) {
				i.Passes, i.LastPass, i.PassTook, i.Differing = i.Passes+1, time.Now(), took, c.failed
			})
		}
		sleep.For(ctx, max(c.pass-took, c.rest))
		began, whole, c.failed = time.Now(), true, 0
	}
}

// online are the replicas that compare.
func (c *comparer) online() (peers []*Peer) {
	for _, p := range c.peers.All() {
		if p.takesCompare && p.online.Load() {
			peers = append(peers, p)
		}
	}
	return peers
}

// next compares the next range.
func (c *comparer) next(peers []*Peer) (more bool, err error) {
	c.use()
	from := c.cursor
	for range compareTries {
		c.cursor = from
		var r counter.PostRange
		q := question{}
		var sums []counter.Digest
		q, sums, more, err = c.ask(peers, func(publish func(counter.PostRange, uint64)) (bool, error) {
			var err error
			r, more, err = c.copier.Next(&c.cursor, publish)
			return more, err
		})
		switch {
		case errors.Is(err, counter.ErrElsewhere):
			continue
		case errors.Is(err, counter.ErrCold):
			c.node.compared.change(func(i *CompareInfo) { i.Unreadable++ })
			return true, nil
		case err != nil || !more:
			return false, err
		}
		again := peers[:0:0]
		for _, p := range peers {
			switch a := c.await(p, q.id); a.word {
			case saysSame, saysOff:
			case saysDiffers:
				c.mend(p, r)
			case saysUnreadable:
				c.node.compared.change(func(i *CompareInfo) { i.Unreadable++ })
			case saysElsewhere:
				again = append(again, p)
			default:
				c.node.compared.change(func(i *CompareInfo) { i.Missed++ })
			}
		}
		posts := uint64(0)
		for _, d := range sums {
			posts += d.Items
		}
		c.node.compared.change(func(i *CompareInfo) { i.Ranges, i.Posts = i.Ranges+1, i.Posts+posts })
		if peers = again; len(peers) == 0 {
			return true, nil
		}
		c.work.settle(c.rest)
	}
	c.node.compared.change(func(i *CompareInfo) { i.Missed += uint64(len(peers)) })
	return true, nil
}

// use makes a copier for the store that is served.
func (c *comparer) use() {
	if store := c.node.host.Store(); c.copier == nil || c.store != store {
		c.copier, c.store = counter.NewRangeCopier(store), store
	}
}

// ask copies a range and asks replicas about it. copy is given what to do at the moment of the copy.
func (c *comparer) ask(peers []*Peer, copy func(publish func(counter.PostRange, uint64)) (bool, error)) (q question, sums []counter.Digest, more bool, err error) {
	c.id++
	q.id = c.id
	c.work.start()
	defer c.work.stop()
	more, err = copy(func(r counter.PostRange, at uint64) {
		q.r, q.at = r, at
		c.tell(peers, q.id, at, encodeQuestion(&q))
	})
	if err != nil || !more {
		return q, nil, more, err
	}
	for _, p := range peers {
		p.wake()
	}
	if sums, err = c.copier.Digests(compareParts, c.work.rest); err != nil {
		return q, nil, more, err
	}
	raw := encodeDigests(q.id, sums)
	for _, p := range peers {
		p.published.add(0, raw)
		p.wake()
	}
	return q, sums, more, nil
}

// tell puts a message into the streams, behind the log up to an offset, and gets ready for answers. It does not wait.
func (c *comparer) tell(peers []*Peer, id, at uint64, raw []byte) {
	for _, p := range peers {
		select { // of a question before
		case <-p.answers:
		default:
		}
		p.asked.Store(id)
		p.published.add(at, raw)
	}
}

// await waits for a replica's answer; an empty one: there is none.
func (c *comparer) await(p *Peer, id uint64) compareAnswer {
	t := time.NewTimer(answerWithin)
	defer t.Stop()
	for {
		select {
		case a := <-p.answers:
			if a.id == id {
				return a
			}
		case <-t.C:
			return compareAnswer{}
		case <-p.gone:
			return compareAnswer{}
		case <-c.work.ctx.Done():
			return compareAnswer{}
		}
	}
}

// mend finds the posts of a range that differ on a replica, and has it take this node's.
func (c *comparer) mend(p *Peer, whole counter.PostRange) {
	share := c.work.share
	c.work.share = func() float64 { return max(share(), mendShare) }
	defer func() { c.work.share = share }()
	mended, confirmed := uint64(0), false
	var judge *counter.LogJudge
	defer func() {
		if judge != nil {
			_ = judge.Close() // it was only read
		}
	}()
	for r, n := whole, 0; n < maxMendRounds && c.work.ctx.Err() == nil; n++ {
		q, sums, _, err := c.ask([]*Peer{p}, func(publish func(counter.PostRange, uint64)) (bool, error) {
			_, err := c.copier.First(r, publish)
			return true, err
		})
		a := compareAnswer{word: saysElsewhere}
		if err == nil {
			a = c.await(p, q.id)
		} else if !errors.Is(err, counter.ErrElsewhere) {
			break
		}
		c.work.settle(c.rest)
		switch {
		case a.word == saysElsewhere:
			continue
		case a.word == saysSame && r == whole && q.r.Hi >= whole.Hi:
			if confirmed {
				c.peers.logger.Warn("a range of a replica that differed is the same now", "replica", p.address(), "counter", c.node.counterName(whole), "lo", whole.Lo, "hi", whole.Hi, "items", mended)
			}
			return
		case a.word == saysSame:
			if r == whole { // its block was split meanwhile: go on behind
				whole.Lo = q.r.Hi
			}
			r = whole
			continue
		case a.word != saysDiffers || a.lo < q.r.Lo || a.hi > q.r.Hi || a.lo >= a.hi:
			n = maxMendRounds
			continue
		}
		if !confirmed {
			confirmed = true
			what := fmt.Sprintf("replica=%s,counter=%s,lo=%d,hi=%d", p.address(), c.node.counterName(whole), a.lo, a.hi)
			c.node.compared.change(func(i *CompareInfo) { i.Last, i.LastAt = what, time.Now() })
			c.peers.logger.Error("a replica differs from this node", "replica", p.address(), "counter", c.node.counterName(whole), "lo", a.lo, "hi", a.hi, "offset", q.at)
		}
		r.Lo, r.Hi = a.lo, a.hi
		posts := uint64(0)
		for i, d := range sums {
			if lo, _ := counter.DigestPart(q.r.Lo, q.r.Hi, compareParts, i); lo >= a.lo && lo < a.hi {
				posts += d.Items
			}
		}
		if posts <= mendRows || a.hi-a.lo == 1 {
			if judge == nil && !c.store.Replica() {
				judge = c.readLog(whole)
			}
			if judge != nil {
				c.correct(judge, r)
			}
			mended += c.sendRows(p, r)
			r = whole
		}
	}
	if c.work.ctx.Err() == nil {
		c.failed++
		c.node.compared.change(func(i *CompareInfo) { i.Differing = max(i.Differing, c.failed) })
		c.peers.logger.Error("a range of a replica still differs from this node", "replica", p.address(), "counter", c.node.counterName(whole), "lo", whole.Lo, "hi", whole.Hi, "items", mended)
	}
}

// readLog begins to read the log for what it says about a range; nil: that is not possible.
func (c *comparer) readLog(r counter.PostRange) *counter.LogJudge {
	judge, err := counter.JudgeByLog(c.store, r)
	if err != nil {
		c.peers.logger.Warn("the log cannot tell which of two nodes is right; taking the primary's posts", "error", err)
		return nil
	}
	return judge
}

// correct gives this node's posts of a range the values that its log has, where they differ: its own memory or file is the
// one that is wrong then. What the log does not have any more is taken to be right here.
func (c *comparer) correct(judge *counter.LogJudge, r counter.PostRange) {
	for range compareTries {
		c.work.start()
		var part counter.PostRange
		var at uint64
		var rows []counter.PostRow
		var def *schema.Counter
		err := c.copier.Rows(r, mendRows, func(r counter.PostRange, offset uint64, now []counter.PostRow) {
			part, at, rows, def = r, offset, now, c.store.Schema().CounterByID(r.Counter)
		})
		if err == nil {
			err = c.store.Replication().CommitHere(at)
		}
		if err == nil {
			err = judge.Read(at, c.work.rest)
		}
		var were []counter.PostRow
		if err == nil {
			if want, wrong := judge.Correct(def, part.Lo, part.Hi, rows); wrong > 0 {
				were, err = counter.MendRange(c.store, part, at, want)
				if len(were) > 0 {
					what := fmt.Sprintf("counter=%s,%s", c.node.counterName(part), describe(were, want))
					c.node.compared.change(func(i *CompareInfo) {
						i.Differences, i.Mended = i.Differences+uint64(len(were)), i.Mended+uint64(len(were))
						i.Last, i.LastAt = what, time.Now()
					})
					c.peers.logger.Error("posts of this primary differed from its log; they have the values of the log now",
						"items", len(were), "offset", at, "lo", part.Lo, "hi", part.Hi, "difference", what, "error", err)
				}
			}
		}
		c.work.stop()
		c.work.settle(c.rest)
		if errors.Is(err, counter.ErrElsewhere) && c.work.ctx.Err() == nil {
			continue
		}
		if err != nil && len(were) == 0 {
			c.peers.logger.Warn("the log cannot tell which of two nodes is right; taking the primary's posts", "error", err)
		}
		return
	}
}

// sendRows has a replica take this node's posts of a range, and returns how many differed.
func (c *comparer) sendRows(p *Peer, r counter.PostRange) (mended uint64) {
	for range compareTries {
		c.id++
		q := question{id: c.id}
		c.work.start()
		err := c.copier.Rows(r, mendRows, func(r counter.PostRange, at uint64, rows []counter.PostRow) {
			q.r, q.at = r, at
			c.tell([]*Peer{p}, q.id, at, encodeRows(&q, rows))
		})
		c.work.stop()
		if err != nil {
			return 0
		}
		p.wake()
		a := c.await(p, q.id)
		c.work.settle(c.rest)
		if a.word == saysMended {
			c.node.compared.change(func(i *CompareInfo) { i.Differences, i.Mended = i.Differences+a.lo, i.Mended+a.lo })
			return a.lo
		}
		if a.word != saysElsewhere {
			return 0
		}
	}
	return 0
}

// compareShare is the share of a processor that comparing may take.
func (n *Node) compareShare() float64 {
	return float64(n.settings().CompareBudget) / float64(time.Second)
}

// counterName is the name of the counter of a range, for people.
func (n *Node) counterName(r counter.PostRange) string {
	if def := n.host.Store().Schema().CounterByID(r.Counter); def != nil {
		return def.Name
	}
	return strconv.FormatUint(uint64(r.Counter), 10)
}
