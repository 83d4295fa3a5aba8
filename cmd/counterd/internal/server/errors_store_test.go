package server

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/errclass"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/vfs"
)

// provokeLoading: while there is no store, and while one is exchanged for another.
func provokeLoading(p provoker) {
	a := newReplNode(p.T).start("")
	w := a.dial()
	w.want("SET 1.cntcm 5", "+OK")
	before := values(p, a.srv.Store())
	if err := a.srv.role.Reopen(func(string) error {
		c := a.dial()
		for _, command := range []string{"INCR 1.cntcm", "MSET 1.cntcm 1 2.cntcm 1", "FLUSHALL", "SAVE", "ADD COUNTER x"} {
			p.heard(c.do(command).String(), items.ErrLoading)
		}
		p.heard(c.do("REPLCONF listening-port 1").String(), items.ErrLoading)
		return nil
	}); err != nil {
		p.Fatal(err)
	}
	if after := values(p, a.srv.Store()); after != before {
		p.Errorf("values were\n%s and are\n%s", before, after)
	}
	w.want("INCR 1.cntcm", ":6")

	// A store being closed counts as none.
	s := wireServe(p.T, nil)
	c, first := wireDial(p, s, 2), s.Store()
	c.want("SET 1.cntcm 5", "+OK")
	second, err := counter.Open("", counter.Options{})
	if err == nil {
		err = second.Close()
	}
	if err != nil {
		p.Fatal(err)
	}
	before = values(p, first)
	s.current.Store(second)
	for _, command := range []string{"INCR 1.cntcm", "GET 1.cntcm", "SCAN 0", "DBSIZE", "FLUSHALL", "ADD COUNTER x", "COUNTER.DIGEST weibo"} {
		if p.heard(c.do(command).String(), "") != errclass.Transient {
			p.Errorf("%s of a store that was closed is not told to be sent again", command)
		}
	}
	c.want("MULTI", "+OK")
	c.want("INCR 1.cntcm", "+QUEUED")
	p.heard(c.do("EXEC").String(), items.ErrLoading)
	s.current.Store(first)
	if after := values(p, first); after != before {
		p.Errorf("values were\n%s and are\n%s", before, after)
	}
	c.want("INCR 1.cntcm", ":6")
}

// faultyServe starts a server on a disk whose faults the test makes.
func faultyServe(p provoker, options counter.Options) (*Server, *vfs.Faulty) {
	faulty := vfs.NewFaulty(vfs.OS())
	options.FS, options.SnapshotGrowth = faulty, -1
	s := wireServeStore(p.T, p.TempDir(), options, nil)
	p.Cleanup(faulty.Clear)
	return s, faulty
}

// changes are commands that change a post, one of each kind.
var changes = []string{"INCR 1.cntcm", "DECR 1.cntcm", "SET 1.cntcm 9", "SETNX 9.cntcm 1", "GETSET 1.cntcm 9", "GETDEL 1.cntcm", "MSET 1.cntcm 9 9.cntcm 9", "HSET 1 comment 9 repost 9",
	"HSETNX 9 comment 1", "HINCRBY 1 comment 1", "HDEL 1 comment", "DEL 1", "DEL 1.cntcm", "UNLINK 1 2", "FLUSHALL", "ADD COUNTER x", "DROP COLUMN weibo comment"}

// provokeDisk: a disk that takes no log. The change that meets the fault is in doubt, later changes are refused.
func provokeDisk(p provoker) {
	s, faulty := faultyServe(p, counter.Options{})
	c := wireDial(p, s, 2)
	for _, set := range []string{"SET 1.cntcm 5", "SET 1.cntrn 5", "SET 2.cntcm 5"} {
		c.want(set, "+OK")
	}
	faulty.Inject(vfs.Rule{Ops: vfs.OpMutating, Every: 1, Err: syscall.ENOSPC})
	n := 5
	until(p.T, "changes are refused", func() bool {
		reply := c.do("INCR 1.cntcm").String()
		if strings.HasPrefix(reply, "-MISCONF ") {
			return true
		}
		n++
		return p.heard(reply, "UNCERTAIN ") != errclass.InDoubt // fails above
	})
	for _, change := range changes {
		p.refused(s, c, change, "MISCONF Errors writing to the AOF file: ")
	}
	p.refused(s, c, "COUNTER.MINCRBY 1.cntcm 1 9.cntcm 1", "MISCONF ")
	c.want("MULTI", "+OK")
	c.want("GET 1.cntcm", "+QUEUED")
	c.want("INCR 1.cntcm", "+QUEUED")
	p.refused(s, c, "EXEC", "EXECABORT Transaction discarded because of: MISCONF ")
	c.want("GET 2.cntcm", `"5"`)
	if class := p.heard(c.do("WAIT 0 1").String(), "UNCERTAIN "); class != errclass.InDoubt { // changes before it are not safe
		p.Errorf("WAIT: %v", class)
	}
	p.heard(c.do("WAITAOF 1 0 1").String(), "UNCERTAIN ")
	p.heard(c.do("WAITAOF 0 0 1").String(), "UNCERTAIN ")
	faulty.Clear()
	until(p.T, "the same command is taken", func() bool { return c.do("INCR 1.cntcm").String() == fmt.Sprintf(":%d", n+1) })
}

// provokeUncertain: every change that the log does not take after it was made is answered by UNCERTAIN, and stays.
func provokeUncertain(p provoker) {
	for _, change := range append([]string{"MULTI", "COUNTER.MINCRBY 1.cntcm 1 9.cntcm 1"}, changes...) {
		s, faulty := faultyServe(p, counter.Options{AppendFsync: counter.SyncAlways})
		c := wireDial(p, s, 2)
		for _, set := range []string{"SET 1.cntcm 5", "SET 1.cntrn 5", "SET 2.cntcm 5"} {
			c.want(set, "+OK")
		}
		if change == "MULTI" {
			c.want("MULTI", "+OK")
			c.want("INCR 1.cntcm", "+QUEUED")
			c.want("GET 1.cntcm", "+QUEUED")
			change = "EXEC"
		}
		before := values(p, s.Store())
		faulty.Inject(vfs.Rule{Ops: vfs.OpMutating, Every: 1, Err: syscall.EIO})
		if p.heard(c.do(change).String(), "UNCERTAIN ") != errclass.InDoubt {
			p.Errorf("%s is not in doubt", change)
		}
		if after := values(p, s.Store()); after == before {
			p.Errorf("%s: UNCERTAIN, and nothing was changed", change)
		}
		faulty.Clear()
		until(p.T, "changes are taken", func() bool { return c.do("SET 7.cntrn 1").String() == "+OK" })
	}
}

// provokeSnapshots: snapshots that fail, or are being made.
func provokeSnapshots(p provoker) {
	s, faulty := faultyServe(p, counter.Options{})
	c := wireDial(p, s, 2)
	c.want("SET 1.cntcm 5", "+OK")
	faulty.Inject(vfs.Rule{Ops: vfs.OpRename, Glob: "MANIFEST-*", Every: 1, Err: syscall.EIO})
	p.refused(s, c, "SAVE", "ERR ")
	p.refused(s, c, "SHUTDOWN SAVE", "ERR Errors trying to SHUTDOWN. Check logs.")
	faulty.Clear()
	c.save()

	waiting, gate := new(atomic.Int64), new(atomic.Pointer[chan struct{}])
	s = wireServeStore(p.T, p.TempDir(), counter.Options{FS: gatedFS{vfs.OS(), waiting, gate}, SnapshotGrowth: -1, AppendFsync: counter.SyncNo}, nil)
	c = wireDial(p, s, 2)
	c.want("SET 1.cntcm 5", "+OK")
	hold := make(chan struct{})
	gate.Store(&hold)
	defer func() {
		gate.Store(nil)
		close(hold)
	}()
	c.want("BGSAVE", "+Background saving started")
	until(p.T, "a snapshot is being made", func() bool { return s.Store().Admin().Snapshots().Running && waiting.Load() > 0 })
	p.refused(s, c, "BGSAVE", "ERR Background save already in progress")
	p.refused(s, c, "SAVE", "ERR Background save already in progress")
	p.refused(s, c, "BGREWRITEAOF", "ERR Background append only file rewriting already in progress")
}

// provokeCold: a cold file that cannot be read.
func provokeCold(p provoker) {
	dir, options := p.TempDir(), counter.Options{BlockItems: 64, HashSeed: 1, SnapshotGrowth: -1}
	store, err := counter.Open(dir, options)
	if err == nil {
		err = store.AlterScript(wireSchema)
	}
	for i := 0; i < 1000 && err == nil; i++ {
		err = store.Set(fmt.Sprintf("%d.cntcm", i), 5)
	}
	if err == nil {
		err = store.Admin().Demote("weibo", 1)
	}
	if err == nil {
		err = store.Snapshot()
	}
	if err == nil {
		err = store.Close()
	}
	if err != nil {
		p.Fatal(err)
	}
	faulty := vfs.NewFaulty(vfs.OS())
	faulty.Inject(vfs.Rule{Ops: vfs.OpRead, Glob: "*.cold", Every: 1, Err: syscall.EIO})
	options.FS = faulty
	s := wireServeStore(p.T, dir, options, nil)
	p.Cleanup(faulty.Clear)
	c := wireDial(p, s, 2)
	end := s.Store().Replication().Position()
	for _, command := range []string{"INCR 1.cntcm", "GET 1.cntcm", "HINCRBY 2 comment 1", "GETDEL 1.cntcm", "SET 1.cntcm 7 XX", "HGETALL 1", "SCAN 0",
		"HMGET 1 comment nosuch repost", "HVALS 1", "EXISTS 1 5000", "COUNTER.DRAIN 1.cntcm 2.cntcm", "HDEL 1 comment", "COUNTER.PROMOTE weibo 1", "COUNTER.DIGEST weibo"} {
		p.heard(c.do(command).String(), "IOERR ")
	}
	for _, command := range []string{"COUNTER.MGET weibo 1", "MGET 1.cntcm 5000.cntcm", "COUNTER.MINCRBY 1.cntcm 1"} {
		p.heard(c.do(command).List[0].String(), "IOERR ")
	}
	if now := s.Store().Replication().Position(); now != end {
		p.Errorf("what was refused is %d bytes of the log", now-end)
	}
	c.want("INCR 999.cntcm", ":6")
}

// provokeMemory: maxmemory is passed and cold ranges cannot be written.
func provokeMemory(p provoker) {
	racetest.Skip(p.T, "it fills memory, which takes ten times as long")
	s, faulty := faultyServe(p, counter.Options{BlockItems: 1 << 13}) // demoting one block makes room
	var script strings.Builder
	script.WriteString("add counter wide\n")
	for i := range 64 { // 512 bytes a post
		fmt.Fprintf(&script, "add column wide c%d hint=63 max=63\n", i)
	}
	if err := s.Store().AlterScript(script.String()); err != nil {
		p.Fatal(err)
	}
	c := wireDial(p, s, 2)
	c.want("SET 1.cntcm 5", "+OK")
	faulty.Inject(vfs.Rule{Ops: vfs.OpCreate, Glob: "*.cold.tmp", Every: 1, Err: syscall.ENOSPC})
	// What settling cannot make smaller: Memory() may count a block twice meanwhile, and less once it has settled.
	wide, b := s.Store().Schema().Counter("wide"), s.Store().NewBatch()
	all := make([]int16, len(wide.Columns))
	for i := range all {
		all[i] = int16(i)
	}
	const posts, each = 150_000, 1000
	for mid := uint64(0); mid < posts; mid += each {
		if err := b.Begin(); err != nil {
			p.Fatal(err)
		}
		shape := b.Shape(all, each)
		for i := range uint64(each) {
			values := b.SetRow(wide, mid+i, shape)
			for k := range values {
				values[k] = 1<<62 + mid
			}
		}
		b.Run()
		b.End()
		if err := b.Commit(); err != nil {
			p.Fatal(err)
		}
		b.Reset()
	}
	multi := wireDial(p, s, 2)
	multi.want("MULTI", "+OK")
	multi.want("SET 9000.cntcm 1", "+QUEUED")
	c.want("CONFIG SET maxmemory 8mb", "+OK") // and 48 MiB more before changes are refused
	full := func() bool { return strings.Contains(c.do("INFO tiers").Text, "memory_refusing_writes:1") }
	until(p.T, "memory is full", func() bool { return s.Store().Crowded() || full() })
	if p.heard(multi.do("EXEC").List[0].String(), "OOM command not allowed: "); s.Store().Crowded() {
		p.Error("EXEC did not wait for room")
	}
	end := s.Store().Replication().Position() // to sum up so much takes seconds
	for _, command := range []string{"INCR 9000.cntcm", "SET 9000.cntcm 1", "MSET 1.cntcm 1 9000.cntcm 1", "HSET 9000 comment 1", "HSETNX 9000 comment 1"} {
		p.heard(c.do(command).String(), "OOM command not allowed: ")
	}
	if now := s.Store().Replication().Position(); now != end {
		p.Errorf("what was refused is %d bytes of the log", now-end)
	}
	c.want("EXISTS 9000", ":0")
	c.want("INCR 1.cntcm", ":6") // there is room for that
	faulty.Clear()
	until(p.T, "the same command is taken", func() bool { return c.do("INCR 9000.cntcm").String() == ":1" })
}
