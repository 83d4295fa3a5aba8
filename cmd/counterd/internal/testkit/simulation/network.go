package simulation

import (
	"context"
	"net"
	"sync"
	"syscall"
	"time"
)

// Network connects hosts, which have addresses and nothing else. Packets of a connection arrive in order, later, or never:
// what a cut link holds back is sent again until the cut ends or the sender gives up, as TCP does.
//
// Lock order: a half's mu, then Network.mu.
type Network struct {
	dice *Dice

	mu    sync.Mutex
	links map[route]Link
	base  Link
	hosts map[string]*Stack // that run; a host without power has none
	ports int
}

// route is one direction between two hosts.
type route struct{ from, to string }

// Link is how packets travel in one direction.
type Link struct {
	Delay, Jitter time.Duration
	Loss          int  // of a thousand packets, which come again 200 ms later
	Cut           bool // nothing arrives
}

// NewNetwork returns a network whose links are all as base.
func NewNetwork(dice *Dice, base Link) *Network {
	return &Network{dice: dice, base: base, links: make(map[route]Link), hosts: make(map[string]*Stack), ports: 10000}
}

// Set changes the link from one host to another.
func (n *Network) Set(from, to string, l Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links[route{from, to}] = l
}

// Base is how links are that nobody changed.
func (n *Network) Base() Link { return n.base }

// Heal makes all links as they were at the beginning.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.links)
}

func (n *Network) link(from, to string) Link {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l, ok := n.links[route{from, to}]; ok {
		return l
	}
	return n.base
}

// stack is what runs on a host; nil: it has no power.
func (n *Network) stack(host string) *Stack {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hosts[host]
}

// travel is how long a packet takes from one host to another.
func (n *Network) travel(from, to string) time.Duration {
	if from == to {
		return 0
	}
	l := n.link(from, to)
	d := l.Delay + n.dice.Between(0, l.Jitter)
	if n.dice.Chance(l.Loss) {
		d += 200 * time.Millisecond
	}
	return d
}

// Stack is the network of one process on a host: its listeners and connections. They end with the process.
type Stack struct {
	net     *Network
	host    string
	version int // of the program, where nodes have several: upgrade.go

	mu        sync.Mutex
	ended     bool
	listeners map[string]*listener
	conns     map[*Conn]struct{}
}

// Boot begins the network of a process on a host. The process before has ended.
func (n *Network) Boot(host string, version int) *Stack {
	s := &Stack{net: n, host: host, version: version, listeners: make(map[string]*listener), conns: make(map[*Conn]struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[host] = s
	return s
}

// Kill ends the process: the host closes its connections. Others see it when the packets that say so arrive.
func (s *Stack) Kill() { s.end(true) }

// PowerOff ends the process together with its host: nobody is told.
func (s *Stack) PowerOff() {
	s.net.mu.Lock()
	if s.net.hosts[s.host] == s {
		delete(s.net.hosts, s.host)
	}
	s.net.mu.Unlock()
	s.end(false)
}

func (s *Stack) end(told bool) {
	s.mu.Lock()
	s.ended = true
	var conns []*Conn
	for c := range s.conns {
		conns = append(conns, c)
	}
	for _, l := range s.listeners {
		l.shut()
	}
	clear(s.listeners)
	s.mu.Unlock()
	for _, c := range conns {
		c.in.fail(net.ErrClosed)
		if told {
			c.out.finish(s.net.dice.Chance(500))
		} else {
			c.out.vanish()
		}
	}
}

func (s *Stack) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended
}

// adopt notes a connection of the process; false: the process has ended.
func (s *Stack) adopt(c *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Stack) forget(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// Listen is as net.Listen, of TCP.
func (s *Stack) Listen(_, address string) (net.Listener, error) {
	addr, err := net.ResolveTCPAddr("tcp", address) // an address in digits: nothing is looked up
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, net.ErrClosed
	}
	if s.listeners[addr.String()] != nil {
		return nil, syscall.EADDRINUSE
	}
	l := &listener{stack: s, addr: addr, queue: make(chan *Conn, 1024), closed: make(chan struct{})}
	s.listeners[addr.String()] = l
	return l, nil
}

func (s *Stack) listener(addr string) *listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listeners[addr]
}

// Connect is as net.Dialer.DialContext, of TCP. It waits for as long as ctx allows while no answer comes.
func (s *Stack) Connect(ctx context.Context, _, address string) (net.Conn, error) {
	to, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	host, fail := to.IP.String(), func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: to, Err: err}
	}
	for {
		if !s.running() {
			return fail(net.ErrClosed)
		}
		if err := wait(ctx, s.net.travel(s.host, host)+s.net.travel(host, s.host)); err != nil {
			return fail(err)
		}
		peer := s.net.stack(host)
		if peer == nil || s.net.link(s.host, host).Cut || s.net.link(host, s.host).Cut {
			if err := wait(ctx, time.Second); err != nil { // the packet is sent again
				return fail(err)
			}
			continue
		}
		l := peer.listener(to.String())
		if l == nil {
			return fail(syscall.ECONNREFUSED)
		}
		s.net.mu.Lock()
		s.net.ports++
		from := &net.TCPAddr{IP: net.ParseIP(s.host), Port: 10000 + s.net.ports%50000}
		s.net.mu.Unlock()
		there, back := newHalf(s.net, s, peer), newHalf(s.net, peer, s)
		mine, theirs := newConn(s, back, there, from, to), newConn(peer, there, back, to, from)
		mine.version = min(s.version, peer.version)
		theirs.version = mine.version
		if !s.adopt(mine) || !peer.adopt(theirs) {
			return fail(syscall.ECONNREFUSED)
		}
		select {
		case l.queue <- theirs:
			return mine, nil
		default:
			return fail(syscall.ECONNREFUSED)
		}
	}
}

// wait sleeps unless ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// listener is one of a process.
type listener struct {
	stack  *Stack
	addr   net.Addr
	queue  chan *Conn
	once   sync.Once
	closed chan struct{}
}

// Accept is of net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	case c := <-l.queue:
		return c, nil
	}
}

func (l *listener) shut() { l.once.Do(func() { close(l.closed) }) }

// Close is of net.Listener.
func (l *listener) Close() error {
	l.stack.mu.Lock()
	delete(l.stack.listeners, l.addr.String())
	l.stack.mu.Unlock()
	l.shut()
	return nil
}

// Addr is of net.Listener.
func (l *listener) Addr() net.Addr { return l.addr }
