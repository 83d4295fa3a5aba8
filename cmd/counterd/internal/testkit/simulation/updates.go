package simulation

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/internal/wire"
)

// The posts of counter u belong to one updater. It adds one to column ua of all of them by COUNTER.UPDATE, with a number, on any node, and sends each update until
// it is answered. Each shard makes a part of it, while groups move and primaries change. So each post has each update once, and all posts have the same updates.

// updater is the client that sends updates, with the counts of its answers. Its fields are read by others when it has ended.
type updater struct {
	*client
	posts         []*updated
	acked, doubts int64 // updates that were made, and updates in doubt
	made          bool  // all posts were made
}

// updated is a post of the updater.
type updated struct {
	mid           uint64
	least, doubts int64 // additions to this post alone, and additions in doubt
}

func (p *updated) key() string { return fmt.Sprintf("{%d}.ua", p.mid) }

// updates tells whether a run of this configuration can have an updater: older nodes do not know all of the promise, and few places for producers end it.
func (c *Config) updates() bool { return c.drains() && c.Older == 0 && c.Producers == 0 }

// updatedLines are the statements that add counter u.
func updatedLines(r *Run) []string {
	if !r.Config.Updates {
		return nil
	}
	return []string{"ADD COUNTER u", "ADD COLUMN u ua hint=4 max=32 suffix=ua"}
}

func newUpdater(r *Run) *updater {
	u := &updater{client: newClient(r, 61, true)}
	u.forwarded = !r.Config.Standalone && u.dice.Chance(500)
	for i := range 8 + u.dice.N(40) {
		u.posts = append(u.posts, &updated{mid: uint64(1_000_000 + 61*i)})
	}
	return u
}

// work sends updates until the clients are to end.
func (u *updater) work(ctx context.Context) {
	defer u.hangUp()
	u.made = true
	for _, p := range u.posts {
		u.add(p)
		u.made = u.made && p.least > 0
	}
	for ctx.Err() == nil && u.made {
		time.Sleep(u.dice.Between(0, 4*u.run.Config.Think))
		if u.dice.Chance(300) { // a number of one post beside those of all, of the same producer
			u.add(Pick(u.dice, u.posts))
			continue
		}
		u.update()
	}
}

// add adds one to a post.
func (u *updater) add(p *updated) {
	switch _, got := u.insist(u.dice, p.key(), []string{"INCRBY", p.key(), "1"}); got {
	case acknowledged:
		p.least++
	case uncertain:
		p.doubts++
	}
}

// update makes one update, and sends it until it is answered.
func (u *updater) update() {
	began := attempt{from: u.run.now()}
	words, doubt := u.withNumber([]string{"COUNTER.UPDATE", "u", "INCR", "ua", "1"}), false
	for {
		n, got, final := u.try(words)
		switch {
		case got == acknowledged:
			if u.acked++; n >= 0 && n != int64(len(u.posts)) {
				u.run.Fault("%s: %v changed %d of %d posts", u.name, words, n, len(u.posts))
			}
			u.run.Story.meet("simulation: a numbered update was answered")
			return
		case final:
			u.doubts++
			u.run.Story.meet("simulation: a numbered update is in doubt")
			return
		case got == uncertain:
			doubt = true
		}
		if u.tired(&began) {
			if doubt {
				u.doubts++
			}
			return
		}
		if u.dice.Chance(300) { // groups move meanwhile, with the number of the update
			time.Sleep(u.dice.Between(0, 20*time.Second))
		}
		u.rest(u.dice)
	}
}

// try sends an update once. n is how many posts were changed, -1 if the answer is not known any more. final: nobody will know whether it was made.
func (u *updater) try(words []string) (n int64, got outcome, final bool) {
	const where = ""       // no key
	delete(u.homes, where) // each try goes to any node
	conn := u.connectFor(where)
	if conn == nil {
		return 0, refused, false
	}
	_ = conn.SetDeadline(time.Now().Add(u.run.Config.Patience))
	v, err := exchanged(conn, [][]string{words})
	var failed *wire.ServerError
	if err != nil && !errors.As(err, &failed) {
		u.hangUp()
		return 0, uncertain, false
	}
	if err != nil {
		switch word, _, _ := strings.Cut(failed.Text, " "); {
		case strings.HasPrefix(failed.Text, "IDMPEXPIRED the change was made"):
			return -1, acknowledged, false
		case word == "IDMPEXPIRED":
			u.run.Story.Say(u.name, "%v was answered -%s", words, failed.Text)
			return 0, uncertain, true
		case word == "UNCERTAIN":
			return 0, uncertain, false
		default:
			got, _ := u.refusal(where, [][]string{words}, failed.Text)
			return 0, got, false
		}
	}
	if n, err = strconv.ParseInt(v.Text(), 10, 64); err != nil {
		u.run.Fault("%s: %v was answered %+v", u.name, words, v)
	}
	return n, acknowledged, false
}

// verifyUpdates compares the posts of the updater with its updates.
func verifyUpdates(r *Run) {
	u := r.updater
	if u == nil || r.lossy || r.alone {
		return
	}
	for _, p := range u.posts {
		if p.least == 0 {
			continue
		}
		least := p.least + u.acked
		if got := lastValue(r, p.key()); got < least || got > least+p.doubts+u.doubts {
			r.Fault("%s is %d, want %d to %d: %d updates, %d that may have been made, %d additions, %d that may have been made", p.key(), got, least, least+p.doubts+u.doubts, u.acked, u.doubts, p.least, p.doubts)
		}
	}
}
