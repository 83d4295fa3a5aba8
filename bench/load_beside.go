package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/counterd/counterd/bench/heavy"
	"github.com/counterd/counterd/bench/postgen"
	"github.com/counterd/counterd/internal/wire"
)

// Load is load on a server beside the measured clients: connections that flood it, or one that sends very large
// commands, or one that takes a full copy. It is generated in a process of its own, as the clients measured would wait
// for it inside of this one; and one that yields to them (nice), as theirs is the time that is measured.
type Load struct {
	Target Target
	Schema Schema
	Posts  int
	Built  bool // ComputedPosts
	Seed   uint64
	Page   int

	Flood int    // connections that send pipelines of increments
	Depth int    // of these
	Heavy string // one of heavy.Kinds
	Copy  bool   // full copies, as a replica takes them
}

// The process is told and tells, a line each:
//
//	<Load as JSON>       ready      it has its connections
//	go                   began      it has begun
//	stop, but for copies over <n>   it is over, n commands were answered, or bytes copied
//
// The end of its input ends it. An error ends it too, with a line "failed <why>".
type loadLines struct {
	in  *bufio.Scanner
	out io.Writer
}

func (l *loadLines) say(format string, args ...any) error {
	_, err := fmt.Fprintf(l.out, format+"\n", args...)
	return err
}

// RunLoad is the process of a Load.
func RunLoad(ctx context.Context, in io.Reader, out io.Writer) error {
	l := &loadLines{bufio.NewScanner(in), out}
	err := l.run(ctx)
	if err != nil {
		_ = l.say("failed %s", strings.ReplaceAll(err.Error(), "\n", " ")) // a reader that misses it sees the end
	}
	return err
}

func (l *loadLines) run(ctx context.Context) error {
	var load Load
	if !l.in.Scan() {
		return l.in.Err()
	}
	if err := json.Unmarshal(l.in.Bytes(), &load); err != nil {
		return fmt.Errorf("the load to make: %w", err)
	}
	source, err := newLoadSource(ctx, &load)
	if err != nil {
		return err
	}
	defer source.close()
	if err := l.say("ready"); err != nil {
		return err
	}
	for l.in.Scan() {
		if l.in.Text() != "go" {
			return fmt.Errorf("told %q, want go", l.in.Text())
		}
		if err := l.say("began"); err != nil {
			return err
		}
		end, done := finishAt(forever), make(chan error, 1)
		var n int64
		go func() {
			var err error
			n, err = source.run(ctx, end)
			done <- err
		}()
		if !load.Copy {
			l.in.Scan() // stop, or the end
			end.set(0)
		}
		if err := <-done; err != nil {
			return err
		}
		if err := l.say("over %d", n); err != nil {
			return err
		}
	}
	return l.in.Err()
}

// loadSource makes a Load.
type loadSource struct {
	load    *Load
	model   Model
	clients []*client
	heavy   *heavy.Client // of heavy commands; nil: there are none
}

func newLoadSource(ctx context.Context, load *Load) (*loadSource, error) {
	s := &loadSource{load: load}
	var err error
	if s.model, err = NewModel(load.Target.Kind, load.Schema); err != nil {
		return nil, err
	}
	if load.Copy {
		return s, nil
	}
	data, err := NewDataset(load.Posts, len(load.Schema.Columns), load.Seed, load.Built)
	if err != nil {
		return nil, err
	}
	// Posts all alike, and other ones than the clients measured ask for.
	w, err := NewWorkload("incr", WorkloadOptions{Data: data, Seed: load.Seed + 1, Page: max(load.Page, 1), Uniform: true})
	if err != nil {
		return nil, err
	}
	clients, depth := load.Flood, load.Depth
	switch load.Heavy {
	case "":
	case "pipeline":
		clients, depth = 1, pipelineDepth
	default:
		s.heavy, err = heavy.NewClient(load.Heavy, heavyPosts(load, s.model, data), load.Target.Dial)
		return s, err
	}
	recs := newRecorders(clients)
	for i := range clients {
		conn, err := wire.Dial(ctx, load.Target.Addr, wire.Options{Password: load.Target.Password})
		if err != nil {
			s.close()
			return nil, fmt.Errorf("connection %d of %d: %w", i+1, clients, err)
		}
		s.clients = append(s.clients, newClient(conn, s.model, w, i, clients, len(load.Schema.Columns), depth, recs[i%len(recs)]))
	}
	return s, nil
}

const pipelineDepth = 1_000_000

// heavyPosts are the posts of a Load as package heavy sees them.
func heavyPosts(load *Load, model Model, data *Dataset) *heavy.Posts {
	random := postgen.NewRNG(load.Seed+1, postgen.StreamClient)
	get := len(wire.AppendArg(wire.AppendArray(nil, 2), "GET"))
	return &heavy.Posts{
		Counter: load.Schema.Counter, Columns: len(load.Schema.Columns), Count: data.Loaded, Counterd: load.Target.Kind == Counterd,
		Mid:  data.Posts().MID,
		Pick: func() uint64 { return data.Posts().MID(int(random.Below(uint64(data.Loaded)))) },
		Page: func(mids []uint64) []byte { return model.AppendPage(nil, mids) },
		Key: func(mid uint64, column int) string {
			arg := string(model.AppendGet(nil, mid, column)[get:])
			_, key, _ := strings.Cut(strings.TrimSuffix(arg, "\r\n"), "\r\n")
			return key
		},
	}
}

// run makes the load until the end, a full copy once, and returns how many commands were answered, or bytes copied.
func (s *loadSource) run(ctx context.Context, end *finish) (n int64, err error) {
	switch {
	case s.load.Copy:
		return fullCopy(ctx, s.load.Target)
	case s.heavy != nil:
		for end.before(clock()) {
			if err := s.heavy.Turn(); err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	case s.load.Heavy == "pipeline":
		return s.pipelines(end)
	}
	before := s.answered()
	var group sync.WaitGroup
	errs := make([]error, len(s.clients))
	for i, c := range s.clients {
		group.Go(func() {
			if errs[i] = c.run(Sync, end); errs[i] != nil {
				end.set(0)
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return s.answered() - before, nil
}

// answered is how many commands were answered.
func (s *loadSource) answered() (n int64) {
	for _, c := range s.clients {
		n += c.done.ops
	}
	return n
}

// pipelines sends a million increments at a time without waiting for replies, which are read meanwhile.
func (s *loadSource) pipelines(end *finish) (int64, error) {
	c := s.clients[0]
	before := c.done.ops
	stream := c.stream
	for end.before(clock()) {
		c.stream, c.ended, c.due = &limited{stream, pipelineDepth}, false, clock()
		if err := c.runOpen(1, finishAt(forever)); err != nil {
			return 0, err
		}
	}
	return c.done.ops - before, nil
}

// limited is the next operations of a Stream.
type limited struct {
	Stream
	left int
}

func (l *limited) Next(op *Op) bool {
	if l.left == 0 {
		return false
	}
	l.left--
	return l.Stream.Next(op)
}

func (s *loadSource) close() {
	for _, c := range s.clients {
		c.conn.Close()
	}
	if s.heavy != nil {
		s.heavy.Close()
	}
}

// floodWork has a Load made.
type floodWork struct {
	worker
	load  Load
	built bool
	apart Apart
	proc  *loadProcess
	work  int64         // commands answered, or bytes
	took  time.Duration // for them
}

// Apart starts RunLoad in a process of its own. Closing in ends it; wait then tells how it ended.
type Apart func(ctx context.Context) (in io.WriteCloser, out io.Reader, wait func() error, err error)

// loadProcess is a Load from the outside.
type loadProcess struct {
	in   io.WriteCloser
	out  *bufio.Scanner
	wait func() error
}

// within starts RunLoad in this process.
func within(ctx context.Context) (io.WriteCloser, io.Reader, func() error, error) {
	inReader, in := io.Pipe()
	out, outWriter := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := RunLoad(ctx, inReader, outWriter)
		inReader.Close()
		outWriter.Close()
		done <- err
	}()
	return in, out, func() error { out.Close(); return <-done }, nil
}

func (w *floodWork) how() string {
	switch {
	case w.load.Copy:
		return "PSYNC ? -1"
	case w.load.Heavy != "":
		return w.load.Heavy
	}
	return fmt.Sprintf("%d connections, pipelines of %d INCR", w.load.Flood, w.load.Depth)
}

// prepare starts the process.
func (w *floodWork) prepare(ctx context.Context) error {
	if heavy.OfCounterd(w.load.Heavy) {
		if err := w.only(); err != nil {
			return err
		}
	}
	w.load.Target, w.load.Schema = w.side.target, w.side.schema
	w.load.Posts, w.load.Built = w.side.data.Loaded, w.built
	if w.apart == nil {
		w.apart = within
	}
	in, out, wait, err := w.apart(ctx)
	if err != nil {
		return err
	}
	w.proc = &loadProcess{in: in, out: bufio.NewScanner(out), wait: wait}
	line, err := json.Marshal(w.load)
	if err != nil {
		return err
	}
	if err := w.proc.tell(string(line)); err != nil {
		return err
	}
	_, err = w.proc.hear("ready")
	return err
}

func (w *floodWork) do(ctx context.Context, until time.Duration, mark mark) error {
	began := clock()
	if err := w.proc.tell("go"); err != nil {
		return err
	}
	if _, err := w.proc.hear("began"); err != nil {
		return err
	}
	over := mark(w.how())
	if !w.load.Copy {
		select {
		case <-ctx.Done():
		case <-time.After(until - clock()):
		}
		if err := w.proc.tell("stop"); err != nil {
			return err
		}
	}
	rest, err := w.proc.hear("over") // of a pipeline when all of it was answered
	over()
	if w.load.Copy {
		w.watcher.forks()
		if _, err := w.watcher.next(ctx); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	var n int64
	if _, err := fmt.Sscan(rest, &n); err != nil {
		return fmt.Errorf("the load says it is over with %q, want a number", rest)
	}
	w.work += n
	w.took += clock() - began
	return nil
}

func (w *floodWork) end() error {
	if w.proc == nil {
		return nil
	}
	w.proc.in.Close()
	return w.proc.wait()
}

func (p *loadProcess) tell(line string) error {
	_, err := io.WriteString(p.in, line+"\n")
	return err
}

// hear waits for a line that begins with a word, and returns the rest of it.
func (p *loadProcess) hear(want string) (rest string, err error) {
	if !p.out.Scan() {
		return "", fmt.Errorf("the load's process ended before it said %s: %w", want, errOr(p.out.Err(), io.ErrUnexpectedEOF))
	}
	word, rest, _ := strings.Cut(p.out.Text(), " ")
	if word == "failed" {
		return "", fmt.Errorf("the load: %s", rest)
	}
	if word != want {
		return "", fmt.Errorf("the load's process said %q, want %s", p.out.Text(), want)
	}
	return rest, nil
}

func errOr(err, other error) error {
	if err == nil {
		return other
	}
	return err
}
