package e2e

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/internal/testkit/resptest"
)

// repeatWriter is a producer: it increments posts of its own, and one that all share, by commands that have a number
// (IDMP), and repeats each until it is answered and WAIT 1 tells that a replica has it. It knows what its posts hold,
// and so what each command must be answered, the first time and again. NOT safe for concurrent use.
type repeatWriter struct {
	producer string
	nodes    []string // addresses: one of them takes changes
	rng      *rand.Rand
	first    int  // of its posts
	keeps    bool // what was answered is never lost, whether WAIT was asked or not

	at     int // the node that it takes for the primary
	c      *conn
	seq    uint64
	sums   [repeatPosts]int64
	shared int64 // that it added to the shared post

	made    int // commands
	repeats int // attempts behind the first one of each
	unknown int // attempts without an answer
	worst   time.Duration
}

const (
	repeatPosts  = 4 // of a writer
	sharedPost   = "1.n"
	repeatWithin = 2 * time.Minute // for a command: there is no primary for a while, and the machine is busy
)

// repeatOp is a command with its number. A repeat has the same bytes.
type repeatOp struct {
	prepare []byte // must be answered +OK before; may be nil
	request []byte
	replies int    // the last one is looked at
	want    string // raw; empty: any integer
}

// add chooses a post and what to add, and counts it as made: it will be.
func (w *repeatWriter) add() (key, n, value string) {
	i, by := w.rng.IntN(repeatPosts), w.rng.Int64N(1000)
	w.sums[i] += by
	return w.key(i), strconv.FormatInt(by, 10), fmt.Sprintf(":%d\r\n", w.sums[i])
}

func (w *repeatWriter) key(i int) string { return strconv.Itoa(w.first+i) + ".n" }

// op makes the next command, of any of the forms that take a number.
func (w *repeatWriter) op() repeatOp {
	w.seq++
	seq := strconv.FormatUint(w.seq, 10)
	numbered := func(dst []byte, words ...string) []byte {
		return resptest.Append(dst, append(words, "IDMP", w.producer, seq)...)
	}
	switch w.rng.IntN(6) {
	case 0: // a batch, whose values are remembered
		k1, n1, v1 := w.add()
		k2, n2, v2 := w.add()
		return repeatOp{request: numbered(nil, "COUNTER.MINCRBY", k1, n1, k2, n2), replies: 1, want: "*2\r\n" + v1 + v2}
	case 1:
		k, n, _ := w.add()
		w.shared++
		return repeatOp{request: numbered(nil, "COUNTER.MINCRBY", sharedPost, "1", k, n, "QUIET"), replies: 1, want: ":2\r\n"}
	case 2:
		k1, n1, v1 := w.add()
		k2, n2, v2 := w.add()
		request := resptest.Append(nil, "MULTI")
		request = resptest.Append(resptest.Append(request, "INCRBY", k1, n1), "INCRBY", k2, n2)
		return repeatOp{request: numbered(request, "EXEC"), replies: 4, want: "*2\r\n" + v1 + v2}
	case 3: // what it is answered nobody knows before
		w.shared++
		return repeatOp{request: numbered(nil, "INCR", sharedPost), replies: 1}
	case 4: // by its connection
		k, n, v := w.add()
		return repeatOp{prepare: resptest.Append(nil, "CLIENT", "IDMP", w.producer, seq), request: resptest.Append(nil, "INCRBY", k, n), replies: 1, want: v}
	}
	return w.incr(seq)
}

// incr is an increment by its own arguments.
func (w *repeatWriter) incr(seq string) repeatOp {
	k, n, v := w.add()
	return repeatOp{request: resptest.Append(nil, "INCRBY", k, n, "IDMP", w.producer, seq), replies: 1, want: v}
}

// do repeats a command until it is answered and a replica has it. The error is what is wrong with the servers.
func (w *repeatWriter) do(op repeatOp) error {
	began := time.Now()
	w.made++
	for n := 0; ; n++ {
		if n > 0 {
			w.repeats++
			w.hangUp()
			w.at = (w.at + 1) % len(w.nodes)
			time.Sleep(time.Duration(1+w.rng.IntN(20)) * time.Millisecond)
		}
		done, err := w.attempt(&op)
		if err != nil {
			return fmt.Errorf("%s, number %d, attempt %d, at %s: %w", w.producer, w.seq, n, w.nodes[w.at], err)
		}
		took := time.Since(began)
		if w.worst = max(w.worst, took); done {
			return nil
		}
		if took > repeatWithin {
			return fmt.Errorf("%s, number %d: not within %v", w.producer, w.seq, repeatWithin)
		}
	}
}

func (w *repeatWriter) hangUp() {
	if w.c != nil {
		w.c.close()
		w.c = nil
	}
}

// attempt sends a command once; done: it was answered as it must be, and is on a replica.
func (w *repeatWriter) attempt(op *repeatOp) (done bool, err error) {
	if w.c == nil {
		if w.c, err = dialTimeout("tcp", w.nodes[w.at], time.Second); err != nil {
			return false, nil
		}
	}
	if op.prepare != nil {
		v, ok, err := w.ask(op.prepare, 1)
		if !ok || v.Kind != '+' {
			return false, err
		}
	}
	v, ok, err := w.ask(op.request, op.replies)
	switch {
	case !ok:
		w.unknown++
		return false, err
	case v.Kind == '-':
		return false, nil
	case op.want == "" && v.Kind == ':':
		if w.keeps {
			op.want = v.Raw
		}
	case v.Raw != op.want:
		return false, fmt.Errorf("%.200q is answered %q, want %q", op.request, v.Raw, op.want)
	}
	v, ok, err = w.ask(resptest.Append(nil, "WAIT", "1", "1000"), 1)
	if ok && op.prepare != nil { // what comes next has numbers of its own
		w.hangUp()
	}
	return ok && v.Kind == ':' && v.N >= 1, err
}

// transient are errors behind which the same command may be sent again: WAIT's is that of a node that has handed its
// role over since.
var transient = []string{"READONLY ", "LOADING ", "UNCERTAIN ", "MASTERDOWN ", "NOREPLICAS ", "MISCONF ", "UNBLOCKED ", "EXECABORT ", "ERR WAIT cannot be used with replica "}

// ask sends bytes and returns the last of so many replies; ok is false where the connection ended before. An error is
// one that no server may give here.
func (w *repeatWriter) ask(request []byte, replies int) (v resptest.Value, ok bool, err error) {
	if w.c.tryWrite(request) != nil {
		return v, false, nil
	}
	for range replies {
		if v, err = w.c.tryReply(); err != nil {
			return v, false, nil
		}
		if v.Kind != '-' {
			continue
		}
		known := false
		for _, word := range transient {
			known = known || strings.HasPrefix(v.Text, word)
		}
		if !known {
			return v, true, fmt.Errorf("%.200q is answered %q", request, v.Raw)
		}
	}
	return v, true, nil
}

// run writes until stop is closed.
func (w *repeatWriter) run(stop <-chan struct{}) error {
	defer w.hangUp()
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		if err := w.do(w.op()); err != nil {
			return err
		}
		time.Sleep(time.Duration(w.rng.IntN(4)) * time.Millisecond)
	}
}
