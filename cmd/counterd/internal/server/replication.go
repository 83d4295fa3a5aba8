package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/command"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/items"
	"github.com/counterd/counterd/cmd/counterd/internal/repl"
	"github.com/counterd/counterd/cmd/counterd/internal/resp"
	"github.com/counterd/counterd/counter"
)

// The server as the host of a repl.Node, and the commands of replication. What they do is package repl's.

// Bits of Server.guard: why commands are refused.
const (
	guardReplica    = 1 << iota // changes come from the primary only
	guardStale                  // a replica without its primary, and replica-serve-stale-data is no
	guardAwait                  // a primary that waits for Sentinel's word: see Server.awaiting
	guardDeposed                // a primary that heard that Sentinel named another
	guardFew                    // fewer replicas follow than min-replicas-to-write
	guardPauseWrite             // changes wait
	guardPauseAll               // everything waits
)

const (
	errMasterDown = "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
	errFew        = "NOREPLICAS Not enough good replicas to write."
)

// lets tells whether a command may pass the guard: one load on the way of every command.
func (s *Server) lets(cmd *row) bool {
	g := s.guard.Load()
	return g == 0 || g&(guardStale|guardPauseAll) == 0 && cmd.Flags&command.Write == 0
}

// refusal tells why a command with such flags may not; empty: it may.
func refusal(g uint32, f command.Flags) string {
	switch {
	case f&command.Write != 0 && g&guardReplica != 0:
		return items.ErrReadOnly
	case g&guardStale != 0 && f&command.Stale == 0:
		return errMasterDown
	case f&command.Write == 0:
		return ""
	case g&guardDeposed != 0:
		return errDeposed
	case g&guardAwait != 0:
		return errAwait
	case g&guardFew != 0:
		return errFew
	}
	return ""
}

// Store is the one being served.
func (s *Server) Store() *counter.Store { return s.store() }

// RoleChanged brings the guard up to date.
func (s *Server) RoleChanged() {
	s.guardMu.Lock()
	defer s.guardMu.Unlock()
	c := s.config.Get()
	g := uint32(0)
	if s.store().Replica() {
		g |= guardReplica
		if info, ok := s.node.Link(); !c.ServeStale && (!ok || info.State != repl.LinkConnected) {
			g |= guardStale
		}
	} else if a := s.awaiting.Load(); a == awaitStarted {
		g |= guardAwait
	} else if a == awaitDeposed {
		g |= guardDeposed
	} else if c.MinReplicas > 0 && c.MinReplicasMaxLag > 0 && s.node.Peers().Good(time.Duration(c.MinReplicasMaxLag)*time.Second) < c.MinReplicas {
		g |= guardFew
	}
	s.guard.Store(g | s.pauses.bits())
}

// Reopen closes the store, lets change work on its directory and opens it again; LOADING is answered meanwhile. If it
// cannot be opened the server ends: there is nothing to serve.
func (s *Server) Reopen(change func(dir string) error) error {
	if s.Open == nil {
		return errors.New("this server cannot open a store")
	}
	empty, err := counter.Open("", counter.Options{})
	if err != nil {
		return err
	}
	dir := s.store().Path()
	s.wasReplica.Store(s.store().Replica())
	s.progress.begin()
	old := s.current.Swap(empty)
	err = old.Close() // waits for open batches
	if err == nil {
		err = change(dir)
	}
	store, oerr := s.Open()
	if oerr != nil {
		s.log.Error("the store cannot be opened again: the server ends", "error", oerr)
		s.terminated.Do(func() { go s.Terminate() })
		return errors.Join(err, oerr)
	}
	store.Replication().Observe(s.watches.Replicated)
	s.current.Store(store)
	s.watches.TouchAll() // it may be other data
	s.configured()
	s.progress.end()
	_ = empty.Close() // nothing was ever done with it
	s.RoleChanged()
	return err
}

func replicationCommands() []*row {
	entry := func(name string, arity int, flags command.Flags, since, syntax, summary string, run func(*client, [][]byte)) *row {
		return &row{Name: name, Arity: arity, Flags: flags, Group: "server", Since: since, Complexity: "O(1)", Syntax: syntax, Summary: summary, Run: run}
	}
	wait := func(name string, arity int, since, syntax, summary string, run func(*client, [][]byte)) *row {
		cmd := entry(name, arity, command.NoScript|command.Blocking, since, syntax, summary, run)
		cmd.Group = "generic"
		return cmd
	}
	return []*row{
		entry("role", 1, command.NoScript|command.Loading|command.Stale|command.Fast, "2.8.12", "", "Returns the role, and what belongs to it.", runRole),
		entry("replicaof", 3, command.Admin|command.NoScript|command.NoAsyncLoading|command.Stale, "5.0.0", "host port", "Makes this a replica of another server, or by NO ONE a primary.", runReplicaOf),
		entry("slaveof", 3, command.Admin|command.NoScript|command.NoAsyncLoading|command.Stale, "1.0.0", "host port", "The same as REPLICAOF.", runReplicaOf),
		entry("replconf", -1, command.Admin|command.NoScript|command.AllowBusy|command.Loading|command.Stale|command.NoMulti, "3.0.0", "", "What replicas say to their primary.", runReplconf),
		entry("psync", -3, command.Admin|command.NoScript|command.NoAsyncLoading|command.NoMulti, "2.8.0", "replicationid offset", "Asks for the stream, as a replica.", runPsync),
		entry("sync", 1, command.Admin|command.NoScript|command.NoAsyncLoading|command.NoMulti, "1.0.0", "", "Sends all changes from now on as commands, for people: what redis-cli --replica prints.", runSync),
		entry("failover", -1, command.Admin|command.NoScript|command.Stale, "6.2.0", "[TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]", "Hands the role of the primary to a replica.", runFailover),
		wait("wait", 3, "3.0.0", "numreplicas timeout", "Waits until replicas have what was written so far, and returns how many.", runWait),
		wait("waitaof", 4, "7.2.0", "numlocal numreplicas timeout", "Waits until what was written so far is safe on disks, and returns on how many.", runWaitAOF),
	}
}

// runSync: SYNC: an archive for redis-cli --rdb, the changes from now on for redis-cli --replica. A Redis that wants to
// be a replica is refused: it would drop its data for what it cannot read.
func runSync(c *client, _ [][]byte) {
	p := c.peer.Load()
	if p == nil {
		p = c.srv.node.Peers().NewPeer(&c.conn)
		c.peer.Store(p)
	}
	text := p.SyncRefusal()
	switch {
	case text != "":
	case !c.srv.store().Durable():
		text = errMemoryOnly + ": there is nothing to send"
	case c.subs.Started() || c.silence.off:
		text = "ERR SYNC needs a connection of its own"
	case p.SnapshotOnly():
		c.sendArchive(false)
		return
	}
	if text != "" {
		c.Out.Error(text)
		return
	}
	if c.send() != nil {
		c.closed = true
		return
	}
	c.confined |= confinedReplica
	if err := p.Watch(c.srv.store()); err != nil {
		c.StoreError(err)
		c.closed = true
	}
}

// runReplicaOf: REPLICAOF host port | NO ONE. In a transaction, where the store is held, the change is made right
// behind it.
func runReplicaOf(c *client, args [][]byte) {
	s := c.srv
	if s.handover.state() != phaseNone && !s.handover.isStuck() {
		c.Out.Error("ERR REPLICAOF not allowed while failing over.")
		return
	}
	var primary repl.Address
	if !resp.EqualFold(args[1], "NO") || !resp.EqualFold(args[2], "ONE") {
		port, ok := resp.Number(args[2])
		if !ok || port < 0 || port > 65535 {
			c.Out.Error("ERR Invalid master port")
			return
		}
		if len(args[1]) > 255 {
			c.Out.Error("ERR Invalid master host")
			return
		}
		primary = repl.Address{Host: string(args[1]), Port: int(port)}
	}
	if !s.store().Durable() && primary != (repl.Address{}) {
		c.Out.Error(errMemoryOnly + ": a replica needs a log")
		return
	}
	elected := c.multi.executing && c.fromSentinel()
	change := func() (err error) {
		s.handover.cede()
		switch {
		case primary != repl.Address{}:
			err = s.node.Follow(primary)
		case elected:
			err = s.leadForSentinel()
		default:
			err = s.node.Lead()
		}
		if err == nil { // not before: until it is a replica, a primary that waits takes no changes
			s.awaiting.Store(awaitNothing)
			err = s.node.ForgetHandover()
		}
		s.RoleChanged()
		return err
	}
	if info, ok := s.node.Link(); ok && info.Primary == primary && s.handover.state() == phaseNone {
		c.Out.Status("OK Already connected to specified master")
		return
	}
	s.setReplicaOf(primary)
	if c.multi.executing {
		go func() {
			if err := change(); err != nil {
				s.log.Error("the role was not changed", "error", err)
			}
		}()
		c.Out.Status("OK")
		return
	}
	if err := change(); err != nil {
		c.StoreError(err)
		return
	}
	c.Out.Status("OK")
}

// runReplconf: REPLCONF name value ..., and ACK and GETACK, which are not answered.
func runReplconf(c *client, args [][]byte) {
	p := c.peer.Load()
	if len(args) >= 3 && resp.EqualFold(args[1], "ACK") {
		if p == nil {
			return
		}
		applied, err := strconv.ParseUint(string(args[2]), 10, 64)
		durable := uint64(0)
		if err == nil && len(args) == 5 && resp.EqualFold(args[3], "FACK") {
			durable, err = strconv.ParseUint(string(args[4]), 10, 64)
		}
		if err != nil {
			c.closed = true // there is no way to answer in the stream
			return
		}
		p.Ack(applied, durable)
		return
	}
	if len(args) == 3 && resp.EqualFold(args[1], "GETACK") {
		return
	}
	if p == nil {
		if c.loading {
			c.Out.Error(errLoading)
			return
		}
		p = c.srv.node.Peers().NewPeer(&c.conn)
		c.peer.Store(p)
	}
	if len(args) == 4 && resp.EqualFold(args[1], "FETCH") {
		c.sendFile(p, string(args[2]), string(args[3]))
		return
	}
	if len(args)%2 == 0 {
		c.Out.Error(items.ErrSyntax)
		return
	}
	for i := 1; i < len(args); i += 2 {
		if err := p.Configure(string(args[i]), args[i+1]); err != nil {
			c.Out.Error("ERR " + err.Error())
			return
		}
	}
	c.Out.Status("OK")
}

// sendFile answers REPLCONF fetch: straight from the file to the connection.
func (c *client) sendFile(p *repl.Peer, tier, name string) {
	file, size, err := p.Fetch(tier, name)
	if err != nil {
		c.Out.Error(err.Error())
		return
	}
	defer file.Close() // only read
	c.Out.BulkHead(size)
	if c.send() != nil {
		c.closed = true
		return
	}
	err = copyFile(file, size, tier == counter.TierCold, func(part io.Reader) (int64, error) {
		c.writingSince.Store(c.srv.clock.Load())
		n, err := io.Copy(&c.conn, part)
		p.Heard() // it cannot be heard of otherwise: this goroutine reads what it says
		c.writingSince.Store(0)
		c.srv.stats.OutBytes.Add(n)
		return n, err
	})
	if err != nil {
		c.closed = true
		c.conn.Close() // half a file was announced as a whole one
		return
	}
	c.Out.Raw([]byte("\r\n"))
}

// copyFile gives size bytes of a file to put, piece by piece. holes: zeros stand for what the disk cannot read, in the
// units in which a disk fails; no checksum of a cold file fits them, so the replica knows those posts for lost, as this
// node does, and gets all others.
func copyFile(file readable, size int64, holes bool, put func(part io.Reader) (int64, error)) error {
	for left := size; left > 0; {
		n, err := put(io.LimitReader(file, min(left, 4<<20)))
		left -= n
		if err != nil && left > 0 && holes && unreadable(file, size-left) {
			hole := min(left, holeSize-(size-left)%holeSize)
			n, err = put(bytes.NewReader(make([]byte, hole)))
			if left -= n; err == nil {
				_, err = file.Seek(size-left, io.SeekStart)
			}
		}
		if err == nil && n == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readable is what copyFile needs of a file.
type readable interface {
	io.ReadSeeker
	io.ReaderAt
}

// holeSize is what is left out where a disk cannot read: its smallest unit, and the smallest page of a cold file.
const holeSize = 4096

// unreadable tells whether the disk cannot read a file at an offset.
func unreadable(file io.ReaderAt, at int64) bool {
	var b [1]byte
	_, err := file.ReadAt(b[:], at)
	return err != nil && err != io.EOF
}

// runPsync: PSYNC replid offset.
func runPsync(c *client, args [][]byte) {
	p := c.peer.Load()
	if p == nil {
		p = c.srv.node.Peers().NewPeer(&c.conn)
		c.peer.Store(p)
	}
	if text := p.Refusal(); text != "" {
		c.Out.Error(text)
		return
	}
	if c.subs.Started() || c.silence.off {
		c.Out.Error("ERR PSYNC needs a connection of its own")
		return
	}
	if p.SnapshotOnly() {
		c.sendArchive(true)
		return
	}
	if err := c.srv.node.Connected(); err != nil && !c.srv.handover.feeds() {
		c.Out.Error(err.Error())
		return
	}
	reply, stream, err := p.Sync(c.srv.store(), string(args[1]), string(args[2]))
	if err != nil {
		c.Out.Error(err.Error())
		return
	}
	c.Out.Raw([]byte(reply))
	if !stream {
		return
	}
	if c.send() != nil {
		c.closed = true
		return
	}
	c.confined |= confinedReplica
	p.Feed()
	c.srv.RoleChanged()
}

func runRole(c *client, _ [][]byte) {
	store := c.srv.store()
	offset := store.Replication().Written()
	if !c.srv.replica() {
		var online []repl.PeerInfo
		for _, i := range c.srv.node.Peers().Infos() {
			if i.Online {
				online = append(online, i)
			}
		}
		c.Out.Array(3)
		c.Out.BulkString("master")
		c.Out.Int(int64(offset))
		c.Out.Array(len(online))
		for _, i := range online {
			c.Out.Array(3)
			c.Out.BulkString(i.IP)
			c.Out.BulkString(strconv.Itoa(i.Port))
			c.Out.BulkString(strconv.FormatUint(i.Applied, 10))
		}
		return
	}
	info, ok := c.srv.node.Link()
	if !ok { // of nobody, or of the one that it is handing its role over to: who asks must not take it for a node to be told to lead
		info.State, info.Primary = repl.LinkConnect, c.srv.handover.target()
	}
	c.Out.Array(5)
	c.Out.BulkString("slave")
	c.Out.BulkString(info.Primary.Host)
	c.Out.Int(int64(info.Primary.Port))
	c.Out.BulkString(string(info.State))
	c.Out.Int(int64(offset))
}

// infoReplication has role first: Sentinel reads the lines in order.
func infoReplication(c *client, t *infoText) {
	s := c.srv
	store, conf := s.store(), s.config.Get()
	stats := store.LogStats()
	if !s.replica() {
		t.field("role", "master")
	} else {
		t.field("role", "slave")
		infoLink(c, t, conf, stats.Written)
	}
	infos := s.node.Peers().Infos()
	t.field("connected_slaves", len(infos))
	if conf.MinReplicas > 0 && conf.MinReplicasMaxLag > 0 {
		t.field("min_slaves_good_slaves", s.node.Peers().Good(time.Duration(conf.MinReplicasMaxLag)*time.Second))
	}
	for i, p := range infos {
		state, lag := "send_bulk", int64(0)
		if p.Online {
			state, lag = "online", int64(p.Lag/time.Second)
		}
		t.field("slave"+strconv.Itoa(i), fmt.Sprintf("ip=%s,port=%d,state=%s,offset=%d,lag=%d", p.IP, p.Port, state, p.Applied, lag))
	}
	past := store.Replication().Lineage()
	id, second, end := s.runID, strings.Repeat("0", 40), int64(-1)
	if len(past.Terms) > 0 {
		id = past.Current().ReplID.String()
	}
	if before, at, ok := past.Before(); ok {
		second, end = before.String(), int64(at)
	}
	t.field("master_failover_state", s.handover.state())
	t.field("master_replid", id)
	t.field("master_replid2", second)
	t.field("master_repl_offset", stats.Written)
	t.field("second_repl_offset", end)
	t.field("repl_backlog_active", min(1, stats.Segments))
	t.field("repl_backlog_size", stats.SegmentBytes)
	t.field("repl_backlog_first_byte_offset", stats.First)
	t.field("repl_backlog_histlen", stats.Written-stats.First)
	for i, p := range infos { // how near each is to needing a full copy: bytes of log it lacks, and what is kept
		t.field("counterd_slave"+strconv.Itoa(i), fmt.Sprintf("sent=%d,durable=%d,behind=%d,lag_ms=%d,kept=%d", p.Sent, p.Durable,
			max(int64(stats.Written)-int64(p.Applied), 0), p.Lag.Milliseconds(), int64(p.Applied)-int64(stats.First)))
	}
	cuts, last := s.node.Cuts()
	t.field("counterd_diverged_cuts", cuts)
	t.field("counterd_diverged_files", s.node.CutFiles())
	if cuts > 0 {
		t.field("counterd_diverged_last", fmt.Sprintf("from=%d,to=%d,sets=%d,deletes=%d,items=%d,file=%s", last.From, last.To, last.Sets, last.Deletes, last.Items, last.File))
	}
}

func infoLink(c *client, t *infoText, conf config.Config, written uint64) {
	info, ok := c.srv.node.Link()
	status := "down"
	if ok && info.State == repl.LinkConnected {
		status = "up"
	}
	io := int64(-1)
	if info.LastIO >= 0 && ok {
		io = int64(info.LastIO / time.Second)
	}
	t.field("master_host", info.Primary.Host)
	t.field("master_port", info.Primary.Port)
	t.field("master_link_status", status)
	t.field("master_last_io_seconds_ago", io)
	copying := 0
	if info.State == repl.LinkSync {
		copying = 1
	}
	t.field("master_sync_in_progress", copying)
	t.field("slave_read_repl_offset", written)
	t.field("slave_repl_offset", written)
	if copying == 1 {
		t.field("master_sync_total_bytes", info.Total)
		t.field("master_sync_read_bytes", info.Copied)
		t.field("master_sync_left_bytes", info.Total-info.Copied)
		t.field("master_sync_perc", fmt.Sprintf("%.2f", 100*float64(info.Copied)/float64(max(1, info.Total))))
	}
	if status == "down" {
		t.field("master_link_down_since_seconds", int64(info.DownFor/time.Second))
	}
	t.field("slave_priority", conf.ReplicaPriority)
	t.field("slave_read_only", 1)
	announced := 0
	if conf.Announced {
		announced = 1
	}
	t.field("replica_announced", announced)
	if info.End > written {
		t.field("counterd_behind_bytes", info.End-written)
	} else {
		t.field("counterd_behind_bytes", 0)
	}
	if info.Error != "" {
		t.field("counterd_link_error", strings.NewReplacer("\r", " ", "\n", " ").Replace(info.Error))
	}
}
