package protocol

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/resptest"
)

// clients is how many connections a sequence uses, so that WATCH has something to see.
const clients = 3

// A unit is what a sequence is made of and is cut down to: requests of one connection which make sense only together.
type unit struct {
	client int
	reqs   [][]string
	more   bool // sent in one write with the next unit, if that is of the same connection
	inline bool // sent as plain text lines instead of arrays
}

// differ runs sequences on both servers. One goroutine.
type differ struct {
	t           testing.TB
	redis, ours *harness.Server
	resp        int // 2 or 3
	chop        *rand.Rand

	control [2]*harness.Conn // redis, ours: outside of the sequence
	client  [clients]differClient
	tainted map[string]bool // keys that hold different values on purpose
	shaken  bool            // watching connections may think differently of their keys on purpose
	apart   bool            // a transaction was executed by one only, on purpose
}

// differClient is one connection of a sequence, on both servers, with what Redis thinks of it.
type differClient struct {
	redis, ours *harness.Conn
	multi       bool
	queued      [][]string
	// uncertain: an intended difference has changed a watched key on one server only, or may have, so
	// that EXEC may be refused by one and not by the other.
	uncertain bool
}

// like says whether two mismatches are of the same kind.
func (m *mismatch) like(o *mismatch) bool {
	return strings.EqualFold(m.args[0], o.args[0]) && m.redis[:1] == o.redis[:1] && m.ours[:1] == o.ours[:1]
}

// mismatch is an undocumented difference.
type mismatch struct {
	at          int // index of the unit
	client      int
	args        []string
	redis, ours string
}

func newDiffer(t testing.TB, resp int, seed uint64) (*differ, bool) {
	t.Helper()
	redis, ok := harness.StartRedis(t)
	if !ok {
		return nil, false
	}
	// Under everysec, changes are refused while a disk takes two seconds for a sync, as beside the other tests.
	d := &differ{t: t, redis: redis, ours: harness.Start(t, "--appendfsync", "no"), resp: resp, chop: rand.New(rand.NewPCG(seed, 1))}
	d.control = [2]*harness.Conn{redis.Dial(t), d.ours.Dial(t)}
	// SCAN names the items of the first counter by their bare mids, as no Redis key is: it stays empty.
	harness.RunScript(t, d.control[1], harness.SchemaScript+harness.PlainScript)
	return d, true
}

// reset empties both servers and opens new connections.
func (d *differ) reset() {
	d.t.Helper()
	for _, c := range d.control {
		c.Want("+OK\r\n", "FLUSHALL")
	}
	for i := range d.client {
		d.reconnect(i)
	}
	d.tainted, d.shaken, d.apart = map[string]bool{}, false, false
}

// reconnect gives a client new connections.
func (d *differ) reconnect(i int) {
	d.t.Helper()
	c := &d.client[i]
	if c.redis != nil {
		c.redis.Close()
		c.ours.Close()
	}
	*c = differClient{redis: d.redis.Dial(d.t), ours: d.ours.Dial(d.t)}
	if d.resp == 3 {
		c.redis.Do("HELLO", "3")
		c.ours.Do("HELLO", "3")
	}
}

// run executes a sequence from empty servers and returns the first undocumented difference, or nil.
func (d *differ) run(seq []unit) *mismatch {
	d.t.Helper()
	d.reset()
	for i := 0; i < len(seq); {
		end := i + 1
		for end < len(seq) && seq[end-1].more && seq[end].client == seq[i].client {
			end++
		}
		if m := d.batch(seq, i, end); m != nil {
			return m
		}
		if d.apart {
			d.reconnect(seq[i].client) // a name may have been set by one only
		}
		d.resync()
		i = end
	}
	return d.compareAll(len(seq))
}

// batch sends the units [lo, hi) in one write and compares all replies.
func (d *differ) batch(seq []unit, lo, hi int) *mismatch {
	d.t.Helper()
	c := &d.client[seq[lo].client]
	var out []byte
	for _, u := range seq[lo:hi] {
		for _, args := range u.reqs {
			if u.inline {
				out = append(out, harness.QuoteArgs(args)+"\r\n"...)
			} else {
				out = resptest.Append(out, args...)
			}
		}
	}
	c.redis.Write(string(out))
	d.writeChopped(c.ours, out)
	for i := lo; i < hi; i++ {
		for _, args := range seq[i].reqs {
			m := &mismatch{at: i, client: seq[i].client, args: args}
			r := c.redis.Reply()
			m.redis = r.Raw
			o, err := c.ours.TryReply()
			if err != nil {
				m.ours = fmt.Sprintf("%q and then: %v", o.Raw, err)
				return m
			}
			m.ours = o.Raw
			if !d.accept(c, args, r, o) {
				return m
			}
		}
	}
	return nil
}

// writeChopped writes p, now and then in small pieces: requests may be split anywhere on their way.
func (d *differ) writeChopped(c *harness.Conn, p []byte) {
	d.t.Helper()
	if d.chop.IntN(8) > 0 {
		c.Write(string(p))
		return
	}
	for len(p) > 0 {
		n := min(len(p), 1+d.chop.IntN(1+len(p)/4))
		c.Write(string(p[:n]))
		p = p[n:]
	}
}

// accept says whether two replies are equal or differ as intended, and follows the connection's state.
func (d *differ) accept(c *differClient, args []string, r, o resptest.Value) bool {
	name := strings.ToLower(args[0])
	o.Raw = harness.WithoutHint(o.Raw)
	queued := c.queued
	wasMulti := c.multi
	switch {
	case name == "multi" && r.Raw == "+OK\r\n":
		c.multi, c.queued = true, nil
	case len(args) == 1 && (name == "exec" || name == "discard" || name == "reset") || strings.HasPrefix(r.Raw, "-EXECABORT"):
		c.multi, c.queued = false, nil
	case c.multi && r.Raw == "+QUEUED\r\n":
		c.queued = append(c.queued, args)
	}
	if name == "exec" && wasMulti && len(args) == 1 {
		uncertain := c.uncertain
		c.uncertain = false
		return d.acceptExec(queued, uncertain, r, o)
	}
	if (name == "discard" || name == "unwatch") && r.Raw == "+OK\r\n" {
		c.uncertain = false
	}
	if r.Raw == "+QUEUED\r\n" && wasMulti {
		if o.Raw != r.Raw && intended(args, r.Raw, o.Raw) != nil {
			c.uncertain = true
			return true
		}
		return o.Raw == r.Raw
	}
	return d.acceptReply(args, r.Raw, o.Raw)
}

// acceptExec compares the replies of a transaction one by one.
func (d *differ) acceptExec(queued [][]string, uncertain bool, r, o resptest.Value) bool {
	if uncertain && (r.Null != o.Null || r.Kind != '-' && strings.HasPrefix(o.Raw, "-EXECABORT")) {
		d.apart = true
		return true
	}
	if r.Null || o.Null || r.Kind != '*' || o.Kind != '*' || len(r.List) != len(queued) || len(o.List) != len(queued) {
		return r.Raw == o.Raw
	}
	for i, args := range queued {
		if !d.acceptReply(args, r.List[i].Raw, o.List[i].Raw) {
			return false
		}
	}
	return true
}

// acceptReply compares the replies to one executed request.
func (d *differ) acceptReply(args []string, redis, ours string) bool {
	ours = harness.WithoutHint(ours)
	if d.apart {
		return true
	}
	// A key that an earlier request of the same batch left different tells nothing until it is made equal again.
	for _, k := range keysOf(args) {
		if d.tainted[k] {
			d.taint(args)
			return true
		}
	}
	if len(d.tainted) > 0 && strings.EqualFold(args[0], "dbsize") {
		return true
	}
	if silentlyDiffers(args) {
		d.taint(args)
		d.shaken = true
		return true
	}
	if redis == ours {
		return true
	}
	if intended(args, redis, ours) == nil {
		return false
	}
	d.taint(args)
	return true
}

// taint notes that a request left its keys different, and that whoever watches them may be told so by one server only.
func (d *differ) taint(args []string) {
	for _, k := range keysOf(args) {
		d.tainted[k] = true
	}
	for i := range d.client {
		d.client[i].uncertain = true
	}
}

// resync removes the keys that differ on purpose from both servers.
func (d *differ) resync() {
	d.t.Helper()
	if len(d.tainted) == 0 && !d.shaken && !d.apart {
		return
	}
	if d.apart {
		for _, c := range d.control {
			c.Want("+OK\r\n", "FLUSHALL")
		}
	}
	for k := range d.tainted {
		for _, c := range d.control {
			if v := c.Do("DEL", k); v.Kind != ':' {
				d.t.Fatalf("DEL %s answered %q", k, v.Raw)
			}
		}
	}
	for i := range d.client {
		d.client[i].uncertain = true
	}
	clear(d.tainted)
	d.shaken, d.apart = false, false
}

// compareAll compares everything that the two servers hold.
func (d *differ) compareAll(at int) *mismatch {
	d.t.Helper()
	var keys [2][]string
	for i, c := range d.control {
		for cursor := "0"; ; {
			v := c.Do("SCAN", cursor, "COUNT", "7")
			if len(v.List) != 2 {
				d.t.Fatalf("SCAN answered %q", v.Raw)
			}
			for _, e := range v.List[1].List {
				keys[i] = append(keys[i], e.Text)
			}
			if cursor = v.List[0].Text; cursor == "0" {
				break
			}
		}
		slices.Sort(keys[i])
	}
	keys[0] = slices.Compact(keys[0]) // Redis may return a key twice; we must not
	if !slices.Equal(keys[0], keys[1]) {
		return &mismatch{at, 0, []string{"(SCAN to the end)"}, "keys: " + strings.Join(keys[0], " "), "keys: " + strings.Join(keys[1], " ")}
	}
	final := [][]string{{"DBSIZE"}}
	for _, k := range keys[0] {
		final = append(final, []string{map[bool]string{true: "HGETALL", false: "GET"}[strings.HasPrefix(k, "h:")], k})
	}
	for _, args := range final {
		r, o := d.control[0].Do(args...).Raw, d.control[1].Do(args...).Raw
		if r != o {
			return &mismatch{at, 0, args, r, o}
		}
	}
	return nil
}

// shrink cuts a failing sequence down: it drops ever smaller pieces as long as the same difference is left. Any other
// would not do: what is left may mean different things to the servers, as a hash with one field does.
func (d *differ) shrink(seq []unit, m *mismatch) ([]unit, *mismatch) {
	seq = slices.Clone(seq[:min(m.at+1, len(seq))])
	runs := 0
	for size := max(len(seq)/2, 1); size > 0; size /= 2 {
		for lo := 0; lo < len(seq); {
			shorter := slices.Concat(seq[:lo], seq[min(lo+size, len(seq)):])
			if runs++; runs > 600 {
				return seq, m
			}
			if m2 := d.run(shorter); m2 != nil && m2.like(m) {
				seq, m = shorter[:min(m2.at+1, len(shorter))], m2
				continue
			}
			lo += size
		}
	}
	return seq, m
}

// report prints a difference with the requests that lead to it.
func (d *differ) report(seq []unit, m *mismatch) string {
	var b strings.Builder
	fmt.Fprintf(&b, "not in the table of differences (RESP%d):\n", d.resp)
	for i, u := range seq {
		for _, args := range u.reqs {
			fmt.Fprintf(&b, "  %d> %s", u.client, harness.QuoteArgs(args))
			if u.inline {
				b.WriteString("  (inline)")
			}
			if u.more && i+1 < len(seq) && seq[i+1].client == u.client {
				b.WriteString("  (in one write with the next)")
			}
			b.WriteByte('\n')
		}
	}
	fmt.Fprintf(&b, "request %s\nredis    %q\ncounterd %q", harness.QuoteArgs(m.args), m.redis, m.ours)
	return b.String()
}

// TestDifferential compares random sequences.
func TestDifferential(t *testing.T) {
	for _, resp := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", resp), func(t *testing.T) {
			_, seed := harness.Random(t)
			d, ok := newDiffer(t, resp, uint64(seed))
			if !ok {
				return
			}
			for round := range harness.Scaled(60) {
				r := rand.New(rand.NewPCG(uint64(seed), uint64(round)<<2|uint64(resp)))
				seq := generate(r, 10+r.IntN(300))
				if m := d.run(seq); m != nil {
					t.Errorf("round %d: %s", round, d.report(d.shrink(seq, m)))
					return
				}
			}
		})
	}
}
