package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/cmd/counterctl/internal/patience"
	"github.com/counterd/counterd/cmd/counterctl/internal/transfer"
	"github.com/counterd/counterd/internal/wire"
)

// RedisOptions select the data.
type RedisOptions struct {
	Addr  string // host:port, or a unix socket's path
	Dial  wire.Options
	DB    int
	Rules *mapping.Rules
	// Patience is how long a server that cannot be reached is waited for. 0: a minute.
	Patience time.Duration
	Log      func(text string) // may be nil
}

// ErrRestarted: the server is another process than the one at the time of the cursor.
var ErrRestarted = errors.New("the source was restarted while it was read: its cursors mean nothing any more; start the import again")

// answerTimeout is for a batch's answer.
const answerTimeout = time.Minute

// Redis reads the keys of a server, or of all masters of a cluster. It is a transfer.Source.
type Redis struct {
	o       RedisOptions
	cluster bool
	nodes   []node
	conn    *wire.Conn // to the node that is read; nil: none
	pos     position
	keys    uint64 // in all nodes, when it began
	scan    scanner
}

var (
	_ transfer.Source = (*Redis)(nil)
	_ transfer.Marker = (*Redis)(nil)
)

// node is a server that is read.
type node struct {
	addr  string
	runID string
}

// OpenRedis connects and finds out what there is to read.
func OpenRedis(ctx context.Context, o RedisOptions) (*Redis, error) {
	if o.Patience <= 0 {
		o.Patience = time.Minute
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	r := &Redis{o: o, nodes: []node{{addr: o.Addr}}}
	r.scan.glob = mapping.Glob(o.Rules.Prefix())
	conn, info, err := r.dial(ctx, o.Addr)
	if err != nil {
		return nil, r.name(o.Addr, err)
	}
	defer conn.Close()
	r.nodes[0].runID = info["run_id"]
	if info["redis_mode"] == "cluster" {
		r.cluster = true
		if r.nodes, err = masters(conn, o.Addr); err != nil {
			return nil, r.name(o.Addr, err)
		}
	}
	for i := range r.nodes {
		if err := r.meet(ctx, &r.nodes[i]); err != nil {
			return nil, r.name(r.nodes[i].addr, err)
		}
	}
	return r, nil
}

// name puts the server in front of an error.
func (r *Redis) name(addr string, err error) error { return fmt.Errorf("source %s: %w", addr, err) }

// meet asks a node who it is and how many keys it has.
func (r *Redis) meet(ctx context.Context, n *node) error {
	conn, info, err := r.dial(ctx, n.addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	n.runID = info["run_id"]
	if n.runID == "" {
		return errors.New("INFO tells no run_id: is it a Redis?")
	}
	v, err := conn.Do("DBSIZE")
	r.keys += uint64(max(v.Int, 0))
	return err
}

// dial connects to a node, and asks for its INFO.
func (r *Redis) dial(ctx context.Context, addr string) (*wire.Conn, map[string]string, error) {
	opts := r.o.Dial
	opts.Answer = answerTimeout
	if opts.TLS != nil && addr != r.o.Addr && opts.TLS.ServerName == hostOf(r.o.Addr) {
		opts.TLS = opts.TLS.Clone() // another node of the cluster shows a certificate of its own
		opts.TLS.ServerName = hostOf(addr)
	}
	conn, err := wire.Dial(ctx, addr, opts)
	if err != nil {
		return nil, nil, err
	}
	info, err := hello(conn, r.o.DB, "server")
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, info, nil
}

func hostOf(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	return host
}

// hello selects the database and asks for a section of INFO.
func hello(conn *wire.Conn, db int, section string) (map[string]string, error) {
	if db != 0 {
		if _, err := conn.Do("SELECT", strconv.Itoa(db)); err != nil {
			return nil, err
		}
	}
	v, err := conn.Do("INFO", section)
	if err != nil {
		return nil, err
	}
	info := map[string]string{}
	for line := range strings.Lines(v.Str) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info, nil
}

// masters asks a node of a cluster for all masters, in order of their addresses.
func masters(conn *wire.Conn, asked string) ([]node, error) {
	v, err := conn.Do("CLUSTER", "SLOTS")
	if err != nil {
		return nil, err
	}
	ranges, err := transfer.ReadSlots(v, asked)
	if err != nil {
		return nil, err
	}
	var nodes []node
	slots := int64(0)
	for _, r := range ranges {
		slots += r.Last - r.First + 1
		if n := (node{addr: r.Primary}); !slices.Contains(nodes, n) {
			nodes = append(nodes, n)
		}
	}
	if slots != 16384 {
		return nil, fmt.Errorf("%d of the cluster's 16384 slots have a master: wait until all have", slots)
	}
	slices.SortFunc(nodes, func(a, b node) int { return strings.Compare(a.addr, b.addr) })
	return nodes, nil
}

// Name is the server's address.
func (r *Redis) Name() string {
	name := r.o.Addr
	if r.cluster {
		name += fmt.Sprintf(" (a cluster of %d masters)", len(r.nodes))
	}
	if r.o.DB != 0 {
		name += fmt.Sprintf(", database %d", r.o.DB)
	}
	return name
}

// Identity is made of the run ids.
func (r *Redis) Identity(context.Context) (string, error) {
	ids := []string{"redis", strconv.Itoa(r.o.DB)}
	for _, n := range r.nodes {
		ids = append(ids, n.runID)
	}
	return strings.Join(ids, " "), nil
}

// Mark is made of the numbers of changes and of saves in INFO. A save sets the number of changes back.
func (r *Redis) Mark(ctx context.Context) (string, error) {
	var marks []string
	for _, n := range r.nodes {
		conn, _, err := r.dial(ctx, n.addr)
		if err != nil {
			return "", r.name(n.addr, err)
		}
		info, err := hello(conn, 0, "persistence")
		conn.Close()
		if err != nil {
			return "", r.name(n.addr, err)
		}
		marks = append(marks, info["rdb_changes_since_last_save"]+" since "+info["rdb_last_save_time"])
	}
	return strings.Join(marks, ", "), nil
}

// Total is how many keys there were at the start.
func (r *Redis) Total() uint64 { return r.keys }

// Close closes the connection.
func (r *Redis) Close() error {
	if r.conn != nil {
		r.conn.Close()
	}
	r.conn = nil
	return nil
}

// Seek goes on from a position.
func (r *Redis) Seek(text json.RawMessage) error {
	p, err := parsePosition(text)
	if err != nil || p.Node > len(r.nodes) {
		return errors.New("the position is none of this source")
	}
	r.pos = *p
	return nil
}

// connect makes the connection to the node that is read, if there is none, and sees that it is still the same process.
func (r *Redis) connect(ctx context.Context) error {
	if r.conn != nil {
		return nil
	}
	n := r.nodes[r.pos.Node]
	conn, info, err := r.dial(ctx, n.addr)
	if err != nil {
		return err
	}
	if info["run_id"] != n.runID {
		conn.Close()
		return ErrRestarted
	}
	r.conn = conn
	return nil
}

const (
	firstWait   = 50 * time.Millisecond
	longestWait = 2 * time.Second
)

// passes tells whether an error may pass: the connection's, or that of a server that is starting.
func passes(err error) bool {
	var answer *wire.ServerError
	if errors.As(err, &answer) {
		code, _, _ := strings.Cut(answer.Text, " ")
		return code == "LOADING" || code == "MASTERDOWN" || code == "BUSY" || code == "TRYAGAIN"
	}
	return !errors.Is(err, wire.ErrProtocol) && !errors.Is(err, ErrRestarted)
}

// withRetries runs f, again while what fails may pass, on a new connection. f leaves nothing behind when it fails.
func (r *Redis) withRetries(ctx context.Context, f func() error) error {
	policy := patience.Policy{First: firstWait, Longest: longestWait, Limit: r.o.Patience, Tell: longestWait, Passes: passes,
		Waiting: func(err error) { r.o.Log(fmt.Sprintf("waiting for the source: %v", err)) }}
	err := policy.Do(ctx, func() (bool, error) {
		err := r.connect(ctx)
		if err == nil {
			_ = r.conn.SetDeadline(time.Now().Add(answerTimeout))
			err = f()
		}
		if err != nil {
			r.Close()
		}
		return false, err
	})
	var spent *patience.SpentError
	if errors.As(err, &spent) {
		return r.name(r.nodes[r.pos.Node].addr, spent.Err)
	}
	return err
}
