package harness

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/internal/testkit/resptest"
)

// RepeatWriter is a producer: it increments posts of its own, and one that all share, by commands that have a number
// (IDMP), and repeats each until it is answered and WAIT 1 tells that a replica has it. It knows what its posts hold,
// and so what each command must be answered, the first time and again. NOT safe for concurrent use.
type RepeatWriter struct {
	Producer string
	Nodes    []string // addresses: one of them takes changes
	Rng      *rand.Rand
	First    int  // of its posts
	Keeps    bool // what was answered is never lost, whether WAIT was asked or not

	at     int // the node that it takes for the primary
	c      *Conn
	Seq    uint64
	Sums   [repeatPosts]int64
	Shared int64 // that it added to the shared post

	Made    int // commands
	Repeats int // attempts behind the first one of each
	Unknown int // attempts without an answer
	Worst   time.Duration
}

const (
	repeatPosts  = 4 // of a writer
	SharedPost   = "1.n"
	RepeatWithin = 2 * time.Minute // for a command: there is no primary for a while, and the machine is busy
)

// RepeatOp is a command with its number. A repeat has the same bytes.
type RepeatOp struct {
	prepare []byte // must be answered +OK before; may be nil
	Request []byte
	replies int    // the last one is looked at
	want    string // raw; empty: any integer
}

// add chooses a post and what to add, and counts it as made: it will be. It is 1 at least, or a post that holds the sum would not tell that
// the change was made.
func (w *RepeatWriter) add() (key, n, value string) {
	i, by := w.Rng.IntN(repeatPosts), 1+w.Rng.Int64N(999)
	w.Sums[i] += by
	return w.Key(i), strconv.FormatInt(by, 10), fmt.Sprintf(":%d\r\n", w.Sums[i])
}

func (w *RepeatWriter) Key(i int) string { return strconv.Itoa(w.First+i) + ".n" }

// op makes the next command, of any of the forms that take a number.
func (w *RepeatWriter) op() RepeatOp {
	w.Seq++
	seq := strconv.FormatUint(w.Seq, 10)
	numbered := func(dst []byte, words ...string) []byte {
		return resptest.Append(dst, append(words, "IDMP", w.Producer, seq)...)
	}
	switch w.Rng.IntN(6) {
	case 0: // a batch, whose values are remembered
		k1, n1, v1 := w.add()
		k2, n2, v2 := w.add()
		return RepeatOp{Request: numbered(nil, "COUNTER.MINCRBY", k1, n1, k2, n2), replies: 1, want: "*2\r\n" + v1 + v2}
	case 1:
		k, n, _ := w.add()
		w.Shared++
		return RepeatOp{Request: numbered(nil, "COUNTER.MINCRBY", SharedPost, "1", k, n, "QUIET"), replies: 1, want: ":2\r\n"}
	case 2:
		k1, n1, v1 := w.add()
		k2, n2, v2 := w.add()
		request := resptest.Append(nil, "MULTI")
		request = resptest.Append(resptest.Append(request, "INCRBY", k1, n1), "INCRBY", k2, n2)
		return RepeatOp{Request: numbered(request, "EXEC"), replies: 4, want: "*2\r\n" + v1 + v2}
	case 3: // what it is answered nobody knows before
		w.Shared++
		return RepeatOp{Request: numbered(nil, "INCR", SharedPost), replies: 1}
	case 4: // by its connection
		k, n, v := w.add()
		return RepeatOp{prepare: resptest.Append(nil, "CLIENT", "IDMP", w.Producer, seq), Request: resptest.Append(nil, "INCRBY", k, n), replies: 1, want: v}
	}
	return w.Incr(seq)
}

// Incr is an increment by its own arguments.
func (w *RepeatWriter) Incr(seq string) RepeatOp {
	k, n, v := w.add()
	return RepeatOp{Request: resptest.Append(nil, "INCRBY", k, n, "IDMP", w.Producer, seq), replies: 1, want: v}
}

// Do repeats a command until it is answered and a replica has it. The error is what is wrong with the servers.
func (w *RepeatWriter) Do(op RepeatOp) error {
	began := time.Now()
	w.Made++
	for n := 0; ; n++ {
		if n > 0 {
			w.Repeats++
			w.HangUp()
			w.at = (w.at + 1) % len(w.Nodes)
			time.Sleep(time.Duration(1+w.Rng.IntN(20)) * time.Millisecond)
		}
		done, err := w.attempt(&op)
		if err != nil {
			return fmt.Errorf("%s, number %d, attempt %d, at %s: %w", w.Producer, w.Seq, n, w.Nodes[w.at], err)
		}
		took := time.Since(began)
		if w.Worst = max(w.Worst, took); done {
			return nil
		}
		if took > RepeatWithin {
			return fmt.Errorf("%s, number %d: not within %v", w.Producer, w.Seq, RepeatWithin)
		}
	}
}

func (w *RepeatWriter) HangUp() {
	if w.c != nil {
		w.c.Close()
		w.c = nil
	}
}

// attempt sends a command once; done: it was answered as it must be, and is on a replica.
func (w *RepeatWriter) attempt(op *RepeatOp) (done bool, err error) {
	if w.c == nil {
		if w.c, err = DialTimeout("tcp", w.Nodes[w.at], time.Second); err != nil {
			return false, nil
		}
	}
	if op.prepare != nil {
		v, ok, err := w.ask(op.prepare, 1)
		if !ok || v.Kind != '+' {
			return false, err
		}
	}
	v, ok, err := w.ask(op.Request, op.replies)
	switch {
	case !ok:
		w.Unknown++
		return false, err
	case v.Kind == '-':
		return false, nil
	case op.want == "" && v.Kind == ':':
		if w.Keeps {
			op.want = v.Raw
		}
	case v.Raw != op.want:
		return false, fmt.Errorf("%.200q is answered %q, want %q", op.Request, v.Raw, op.want)
	}
	v, ok, err = w.ask(resptest.Append(nil, "WAIT", "1", "1000"), 1)
	if ok && op.prepare != nil { // what comes next has numbers of its own
		w.HangUp()
	}
	return ok && v.Kind == ':' && v.N >= 1, err
}

// transient are errors behind which the same command may be sent again: WAIT's is that of a node that has handed its
// role over since.
var transient = []string{"READONLY ", "LOADING ", "UNCERTAIN ", "MASTERDOWN ", "NOREPLICAS ", "MISCONF ", "UNBLOCKED ", "EXECABORT ", "ERR WAIT cannot be used with replica "}

// ask sends bytes and returns the last of so many replies; ok is false where the connection ended before. An error is
// one that no server may give here.
func (w *RepeatWriter) ask(request []byte, replies int) (v resptest.Value, ok bool, err error) {
	if w.c.TryWrite(request) != nil {
		return v, false, nil
	}
	for range replies {
		if v, err = w.c.TryReply(); err != nil {
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

// Run writes until stop is closed.
func (w *RepeatWriter) Run(stop <-chan struct{}) error {
	defer w.HangUp()
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		if err := w.Do(w.op()); err != nil {
			return err
		}
		time.Sleep(time.Duration(w.Rng.IntN(4)) * time.Millisecond)
	}
}
