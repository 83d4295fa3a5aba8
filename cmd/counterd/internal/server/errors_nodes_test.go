package server

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/role"
)

// provokeWait: WAIT that is ended, by a client and by the end of the role.
func provokeWait(p provoker) {
	a := newReplNode(p.T).start("")
	b := newReplNode(p.T).start(a.addr())
	until(p.T, "the replica follows", func() bool { return b.info("master_link_status") == "up" && a.dial().do("WAIT 1 100").N == 1 })
	w := a.dial()
	id := w.do("CLIENT ID").N
	w.send("WAIT 5 0")
	untilBlocked(p.T, a.srv, 1)
	p.unchanged(a.srv, "WAIT", func() {
		a.dial().want(fmt.Sprintf("CLIENT UNBLOCK %d ERROR", id), ":1")
		p.heard(w.read().String(), "UNBLOCKED client unblocked via CLIENT UNBLOCK")
		w.send("WAIT 5 0")
		untilBlocked(p.T, a.srv, 1)
		a.dial().want("FAILOVER", "+OK")
		p.heard(w.read().String(), "UNBLOCKED force unblock from blocking operation")
	})
	until(p.T, "the roles are exchanged", func() bool {
		return b.info("role") == "master" && a.info("master_link_status") == "up" && a.info("master_failover_state") == role.PhaseNone
	})
	r := a.dial()
	p.refused(a.srv, r, "WAIT 1 1", "ERR WAIT cannot be used with replica instances.")
	p.refused(a.srv, r, "WAITAOF 0 1 1", "ERR WAITAOF cannot be used with replica instances.")
	p.refused(a.srv, r, "FAILOVER", "ERR FAILOVER is not valid when server is a replica.")
	for _, change := range changes {
		p.refused(a.srv, r, change, items.ErrReadOnly)
	}
	r.want("MULTI", "+OK")
	p.refused(a.srv, r, "INCR 1.cntcm", items.ErrReadOnly)
	r.want("DISCARD", "+OK")
}

// provokeRoles: a replica without its primary, and a primary without replicas.
func provokeRoles(p provoker) {
	a := newReplNode(p.T).start("")
	w := a.dial()
	w.want("SET 1.cntcm 5", "+OK")
	b := newReplNode(p.T).start(a.addr())
	until(p.T, "the replica follows", func() bool { return b.info("master_link_status") == "up" && b.dial().do("GET 1.cntcm").Text == "5" })
	w.want("MULTI", "+OK")
	w.want("INCR 1.cntcm", "+QUEUED")
	a.dial().want("CONFIG SET min-replicas-to-write 2", "+OK")
	p.refused(a.srv, w, "EXEC", "EXECABORT Transaction discarded because of: NOREPLICAS ")
	for _, change := range changes {
		p.refused(a.srv, w, change, "NOREPLICAS Not enough good replicas to write.")
	}
	w.want("CONFIG SET min-replicas-to-write 0", "+OK")
	w.want("INCR 1.cntcm", ":6")
	a.stop()
	until(p.T, "the link is down", func() bool { return b.info("master_link_status") == "down" })
	peer, r := b.dial(), b.dial()
	peer.want("REPLCONF listening-port 7 version counterd capa counterd1", "+OK")
	p.refused(b.srv, peer, "PSYNC ? -1", "NOMASTERLINK Can't SYNC while not connected")
	r.want("CONFIG SET replica-serve-stale-data no", "+OK")
	p.refused(b.srv, r, "GET 1.cntcm", "MASTERDOWN Link with MASTER is down")
	a.start("")
	until(p.T, "the same command is taken", func() bool { return r.do("GET 1.cntcm").String() == `"6"` })
}

// provokeFailover: FAILOVER, and commands refused during it.
func provokeFailover(p provoker) {
	a := newReplNode(p.T).start("")
	w := a.dial()
	w.want("SET 1.cntcm 5", "+OK")
	p.refused(a.srv, w, "FAILOVER", "ERR FAILOVER requires connected replicas.")
	nobody, err := net.Listen("tcp", "127.0.0.1:0") // takes connections once it is asked to
	if err != nil {
		p.Fatal(err)
	}
	defer nobody.Close()
	port := nobody.Addr().(*net.TCPAddr).Port
	to := fmt.Sprintf("TO 127.0.0.1 %d", port)
	copying := a.dial()
	copying.want("REPLCONF listening-port 7 ip-address 127.0.0.1 version counterd capa counterd1", "+OK")
	copying.send("PSYNC ? -1")
	until(p.T, "a replica copies", func() bool { return strings.Contains(a.dial().do("INFO replication").Text, "port=7,") })
	deafReplica(p.T, a, port)
	p.refused(a.srv, w, "FAILOVER TO 127.0.0.1 7", "ERR FAILOVER target replica is not online.")
	p.refused(a.srv, w, "FAILOVER TO 127.0.0.1 1", "ERR FAILOVER target HOST and PORT is not a replica.")
	p.refused(a.srv, w, "FAILOVER "+to+" FORCE", "ERR FAILOVER with force option requires both")
	w.want("INCR 1.cntcm", ":6") // the replica lacks it
	w.want("FAILOVER", "+OK")
	p.refused(a.srv, w, "FAILOVER", "ERR FAILOVER already in progress.")
	p.refused(a.srv, w, "REPLICAOF NO ONE", "ERR REPLICAOF not allowed while failing over.")
	w.want("FAILOVER ABORT", "+OK")
	until(p.T, "no failover", func() bool { return a.info("master_failover_state") == role.PhaseNone })
	w.want("FAILOVER "+to+" FORCE TIMEOUT 50", "+OK")
	conn, err := nobody.Accept()
	if err != nil {
		p.Fatal(err)
	}
	defer conn.Close()
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || line != "*3\r\n" { // the role was given away before
		p.Fatalf("the target was told %q %v", line, err)
	}
	for _, change := range changes {
		p.refused(a.srv, w, change, items.ErrReadOnly)
	}
	w.want("FAILOVER ABORT", "+OK")
	until(p.T, "the same command is taken", func() bool { return w.do("INCR 1.cntcm").String() == ":7" })
}

// provokeSentinel: a primary that Sentinel watched, and a primary that it has
// replaced.
func provokeSentinel(p provoker) {
	a := newReplNode(p.T).start("")
	sentinel := a.dial()
	sentinel.want("CLIENT SETNAME sentinel-0123-cmd", "+OK")
	says := func(port, epoch int) {
		sentinel.want(fmt.Sprintf("PUBLISH __sentinel__:hello 127.0.0.1,26379,one,%d,mymaster,127.0.0.1,%d,%d", epoch, port, epoch), ":0")
	}
	says(a.port, 1)
	w := a.dial()
	w.want("SET 1.cntcm 5", "+OK")
	says(1, 2)
	w = a.dial()
	for _, change := range changes {
		p.refused(a.srv, w, change, "READONLY Sentinel reported another node as primary")
	}
	w.want("REPLICAOF NO ONE", "+OK")
	w.want("INCR 1.cntcm", ":6")
	a.stop()
	a.start("")
	w = a.dial()
	for _, change := range changes {
		p.refused(a.srv, w, change, "READONLY this node was monitored by Sentinel")
	}
	w.want("REPLICAOF NO ONE", "+OK")
	w.want("INCR 1.cntcm", ":7")
}

// provokeReplicas: errors for replicas, and for tools that behave like a replica.
func provokeReplicas(p provoker) {
	a := newReplNode(p.T).start("")
	w := a.dial()
	w.want("SET 1.cntcm 5", "+OK")
	dial := func() *wireClient {
		c := a.dial()
		c.want("REPLCONF listening-port 7 version counterd capa counterd1", "+OK")
		return c
	}
	words := func(text string) string { return strangerWords(a.srv.Store()).Replace(text) }

	// The log, for a client that claims to be a replica.
	c := dial()
	if got := c.sendArgs("REPLCONF", "history", words("<past>")); got != "+OK" {
		p.Fatal(got)
	}
	p.refused(a.srv, c, words("PSYNC <id> 99999999"), "DIVERGED ")
	b := newReplNode(p.T).start(a.addr())
	until(p.T, "the replica follows", func() bool { return b.info("master_link_status") == "up" && b.srv.Store().Replication().Position() > 0 })
	c = b.dial()
	c.want("REPLCONF listening-port 7 version counterd capa counterd1", "+OK")
	theirs := strangerWords(b.srv.Store())
	if got := c.sendArgs("REPLCONF", "history", theirs.Replace("<past>")); got != "+OK" {
		p.Fatal(got)
	}
	p.refused(b.srv, c, theirs.Replace("PSYNC <id> 99999999"), "NOTYET ")
	b.stop()
	c = dial()
	c.want("CLIENT REPLY ON", "+OK")
	for _, command := range []string{"SYNC", "PSYNC ? -1"} {
		c := dial()
		c.proto = 3
		c.do("HELLO 3")
		c.do("SUBSCRIBE a")
		p.refused(a.srv, c, command, "ERR "+command[:strings.Index(command+" ", " ")]+" needs a connection of its own")
	}
	p.unchanged(a.srv, "a change by a replica", func() {
		c := deafReplica(p.T, a, 8)
		c.send("INCR 1.cntcm")
		for {
			line, err := c.r.ReadString('\n')
			if err != nil {
				p.Fatal(err)
			}
			if i := strings.Index(line, "-ERR "); i >= 0 {
				p.heard(strings.TrimSpace(line[i:]), "ERR this connection carries the log to a replica: only REPLCONF is allowed")
				return
			}
		}
	})
	mem := wireServe(p.T, nil)
	c = wireDial(p, mem, 2)
	c.want("REPLCONF version counterd", "+OK")
	p.refused(mem, c, "PSYNC ? -1", "ERR data is kept in memory only (appendonly no): there is no log to replicate")
	p.refused(mem, wireDial(p, mem, 2), "PSYNC ? -1", "ERR this is counterd: a Redis server cannot replicate from it")

	// Files of a snapshot.
	for i := range 1000 {
		w.want(fmt.Sprintf("SET %d.cntcm 5", i), "+OK")
	}
	w.want("COUNTER.DEMOTE weibo 1", "+OK")
	w.save()
	announced := func() *wireClient {
		c := dial()
		c.send("PSYNC ? -1")
		line, err := c.r.ReadString('\n')
		f := strings.Fields(line)
		if err != nil || len(f) < 5 {
			p.Fatalf("PSYNC: %q %v", line, err)
		}
		for _, size := range f[3:] {
			k, _ := strconv.Atoi(size)
			if _, err := c.r.Discard(k + 2); err != nil {
				p.Fatal(err)
			}
		}
		return c
	}
	p.refused(a.srv, announced(), "REPLCONF fetch hot nosuch", "ERR the snapshot has no file \"nosuch\"")
	p.refused(a.srv, announced(), "REPLCONF verify cold nosuch", "ERR the snapshot has no file \"nosuch\"")
	p.refused(a.srv, announced(), "REPLCONF listening-port 8", "ERR REPLCONF options come before PSYNC")
	c = announced()
	for _, tier := range []string{"cold", "hot"} {
		files, _ := filepath.Glob(filepath.Join(a.dir, map[string]string{"cold": "cold/*.cold", "hot": "rdb/*.hot"}[tier]))
		if len(files) == 0 {
			p.Fatalf("no %s files", tier)
		}
		verify := "REPLCONF verify cold " + filepath.Base(files[0])
		if tier == "cold" {
			c.want(verify, "+OK")
		}
		for _, path := range files {
			if err := os.Remove(path); err != nil {
				p.Fatal(err)
			}
		}
		if tier == "cold" {
			p.heard(c.do(verify).String(), "LOST ")
		}
		p.heard(c.do("REPLCONF fetch "+tier+" "+filepath.Base(files[0])).String(), map[string]string{"cold": "LOST ", "hot": "ERR an image is damaged"}[tier])
	}
	w.want("GET 999.cntcm", `"5"`)

	// A store that took another's place.
	a = newReplNode(p.T).start("")
	a.dial().save()
	c = announced()
	if err := a.srv.role.Reopen(func(string) error { return nil }); err != nil {
		p.Fatal(err)
	}
	p.heard(c.do("PSYNC ? 0").String(), "ERR the snapshot that was announced is no more")
}
