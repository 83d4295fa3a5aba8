package server

import (
	"net"
	"strconv"
	"strings"
)

// What a node learns from Sentinel without being spoken to. Each Sentinel publishes, on every node it watches and each 2 s, who it is and who
// the primary is:
//
//	__sentinel__:hello  ip,port,runid,epoch,name,primary's ip,primary's port,primary's epoch
//
// A plain server that was killed as primary takes changes again as soon as it is back, until Sentinel makes it a replica: 10.5 s in a trial,
// and all of them are lost. So a node that Sentinel watched refuses changes after a restart until one names it.

const helloChannel = "__sentinel__:hello"

const errAwait = "READONLY this node was watched by Sentinel when it ended and waits to hear whether it is still the primary. REPLICAOF NO ONE makes it so"

// heardSentinel takes a hello that was published on this connection.
func (c *client) heardSentinel(hello string) {
	s := c.srv
	fields := strings.Split(hello, ",")
	if len(fields) != 8 {
		return
	}
	if s.store().Durable() && !s.watched.Swap(true) {
		if err := s.store().SetMonitored(); err != nil {
			s.watched.Store(false)
			s.log.Error("it cannot be noted that Sentinel watches this node", "error", err)
		}
	}
	if s.awaiting.Load() && c.isHere(fields[5], fields[6]) {
		s.awaiting.Store(false)
		s.RoleChanged()
		s.log.Info("Sentinel names this node the primary: changes are taken")
	}
}

// isHere tells whether an address is this node's: as the connection reached it, or as it is announced.
func (c *client) isHere(host, port string) bool {
	config := c.srv.config.get()
	own := config.Port
	if config.AnnouncePort != 0 {
		own = config.AnnouncePort
	}
	if host == config.AnnounceIP && host != "" {
		return port == strconv.Itoa(own)
	}
	here, reached, err := net.SplitHostPort(c.conn.LocalAddr().String())
	if err != nil {
		return false
	}
	ip, other := net.ParseIP(here), net.ParseIP(host)
	return port == reached && ip != nil && ip.Equal(other)
}
