package front

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
)

// Listen opens all listeners and serves them in the background. On error none is left open.
func (f *Front) Listen() error {
	c := f.config.Get()
	for _, l := range []listener{{setting: "port", port: c.Port}, {setting: "tls-port", port: c.TLS.Port, tls: true}} {
		if err := f.listenTCP(c.Bind, l); err != nil {
			return err
		}
	}
	if c.UnixSocket != "" {
		l, err := listenUnix(c.UnixSocket, fs.FileMode(c.UnixSocketPerm))
		if err != nil {
			f.closeListeners()
			return err
		}
		f.listeners = append(f.listeners, listener{Listener: l})
	}
	if len(f.listeners) == 0 {
		return fmt.Errorf("none of the addresses %v can be listened on", c.Bind)
	}
	for _, l := range []listener{{setting: "readonly-port", port: c.ReadonlyPort, purpose: Readonly},
		{setting: "tls-readonly-port", port: c.TLS.ReadonlyPort, purpose: Readonly, tls: true},
		{setting: "forward-port", port: c.Cluster.ForwardPort, purpose: Forward},
		{setting: "tls-forward-port", port: c.Cluster.TLSForwardPort, purpose: Forward, tls: true}} {
		if err := f.listenTCP(c.Bind, l); err != nil {
			return err
		}
	}
	for range runtime.GOMAXPROCS(0) {
		l, err := newLoop(f)
		if err != nil {
			f.closeListeners()
			f.stopLoops()
			return err
		}
		f.loops = append(f.loops, l)
	}
	if open := elsewhere(f.listeners); open != "" && c.ProtectedMode && !f.host.NeedsPassword() {
		f.log.Warn("clients of other machines are refused: no password is set (requirepass or users), and protected mode is on", "address", open)
	}
	go f.relief.run(f.loops)
	f.done.Add(1 + len(f.listeners))
	go f.janitor()
	for _, l := range f.listeners {
		go f.accept(l)
	}
	return nil
}

// Port is the purpose of a listener.
type Port uint8

// The ports.
const (
	Clients  Port = iota // for all clients
	Readonly             // for reads only
	Forward              // for clients that know of no cluster: this node answers for all
)

// listener is a listening socket, and its purpose.
type listener struct {
	net.Listener
	setting string // that names the port
	port    int
	purpose Port
	tls     bool
}

// listenTCP opens the listeners of a port; none if it is 0. On error it closes all.
func (f *Front) listenTCP(bind []string, kind listener) error {
	port := kind.port
	if port == 0 {
		return nil
	}
	for _, addr := range bind {
		optional := addr != "" && addr[0] == '-'
		if optional {
			addr = addr[1:]
		}
		network, addr := family(addr)
		l, err := f.listen(network, net.JoinHostPort(addr, strconv.Itoa(port)))
		if err != nil {
			if optional && !errors.Is(err, syscall.EADDRINUSE) {
				continue
			}
			f.closeListeners()
			return refusedPort(addr, kind, err)
		}
		kind.Listener = l
		f.listeners = append(f.listeners, kind)
	}
	return nil
}

// refusedPort adds a remedy to the error of a port that the machine refuses.
func refusedPort(addr string, kind listener, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("port %d of %s is taken by another program: end that one, or choose a port with --%s: %w", kind.port, addr, kind.setting, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("bind: this machine has no address %s: give one that it has, or -%s to do without it while it is missing: %w", addr, addr, err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("this user may not open port %d: choose a port from 1024 with --%s, or give the process CAP_NET_BIND_SERVICE: %w", kind.port, kind.setting, err)
	}
	return err
}

// family tells which kind of addresses one of --bind is of, as Redis does: 0.0.0.0 is all of IPv4 and nothing of IPv6,
// which a firewall may not know.
func family(bind string) (network, addr string) {
	switch {
	case bind == "*":
		return "tcp4", "0.0.0.0"
	case bind == "::*":
		return "tcp6", "::"
	}
	ip, err := netip.ParseAddr(bind)
	switch {
	case err != nil: // a name
		return "tcp", bind
	case ip.Is4():
		return "tcp4", bind
	}
	return "tcp6", bind
}

// listenUnix takes over a socket file that nobody answers on.
func listenUnix(path string, perm fs.FileMode) (net.Listener, error) {
	if conn, err := net.Dial("unix", path); err == nil {
		conn.Close()
		return nil, fmt.Errorf("unix socket %s is taken by another program", path)
	} else if errors.Is(err, syscall.ECONNREFUSED) {
		_ = os.Remove(path)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, perm); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (f *Front) stopLoops() {
	for _, l := range f.loops {
		l.stop()
	}
	f.relief.stop()
}

// Addr is the address of the first listener.
func (f *Front) Addr() net.Addr { return f.listeners[0].Addr() }

func (f *Front) closeListeners() {
	for _, l := range f.listeners {
		l.Close()
	}
}

// accept serves one listener. Errors of accept (too many open files) are waited out, not spun on.
func (f *Front) accept(l listener) {
	defer f.done.Done()
	pause := time.Duration(0)
	for {
		conn, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			f.log.Warn("accept failed", "error", err, "retry_in", pause)
			time.Sleep(pause)
			continue
		}
		pause = 0
		if l.tls {
			f.greet(conn, l)
		} else {
			f.admit(conn, l.purpose, nil)
		}
	}
}

// admit starts a connection, or refuses it in the words that clients know. Those for reads only and all others have a
// number of their own, so that neither kind can keep the other out. t is the connection's TLS, if it has one, behind the
// handshake.
func (f *Front) admit(conn net.Conn, port Port, t *secure) {
	conf := f.config.Get()
	refusal := ""
	if conf.ProtectedMode && !f.host.NeedsPassword() && !fromHere(conn) {
		refusal = deniedText
	}
	f.mu.Lock()
	switch {
	case f.stopping:
		f.mu.Unlock()
		conn.Close()
		return
	case port != Readonly && len(f.sessions)-f.readers >= conf.MaxClients, port == Readonly && f.readers >= conf.ReadonlyClients, lastDescriptor(conn):
		refusal = "-ERR max number of clients reached\r\n"
	}
	if refusal != "" {
		f.mu.Unlock()
		f.totals.Rejected.Add(1)
		say(conn, t, refusal, f.log)
		return
	}
	s, err := f.open(conn, conf, port, t)
	if err != nil { // too many open files
		f.mu.Unlock()
		f.totals.Rejected.Add(1)
		f.log.Warn("connection refused", "error", err)
		conn.Close()
		return
	}
	f.sessions[s.id] = s
	if port == Readonly {
		f.readers++
	}
	f.done.Add(1)
	f.mu.Unlock()
	f.totals.Connections.Add(1)
	if err := s.loop.add(s); err != nil {
		s.loop.endSession(s, err)
	}
}

// open takes conn over. REQUIRES mu.
func (f *Front) open(conn net.Conn, conf config.Config, port Port, t *secure) (*Session, error) {
	trusted := !f.host.NeedsPassword()
	f.last++
	s := f.host.NewSession(trusted, port)
	s.Activity.clock, s.Activity.created = &f.clock, time.Now()
	s.account.front, s.account.conn = f, &s.conn
	s.front, s.id, s.port, s.rd = f, f.last, port, resp.NewReader(resp.DefaultLimits())
	if tcp, ok := conn.(*net.TCPConn); ok && conf.TCPKeepalive > 0 {
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: time.Duration(conf.TCPKeepalive) * time.Second,
			Interval: time.Duration(conf.TCPKeepalive) * time.Second / 3, Count: 3})
	}
	if err := s.conn.open(conn); err != nil {
		return nil, err
	}
	if t != nil {
		s.conn.secure = t
		t.over(&s.conn)
	}
	s.lane = int(s.id) % len(f.loops)
	s.loop = f.loops[s.lane]
	s.Activity.lastRead.Store(f.clock.Load())
	s.Trust(trusted)
	return s, nil
}

const deniedText = "-DENIED counterd is running in protected mode: no password is set, and this connection does not come from 127.0.0.1 or ::1. " +
	"Set a password with --requirepass (replicas and nodes of a cluster also need --masterauth), or turn protected mode off with --protected-mode no if the network is trusted.\r\n"

// elsewhere is the address of the first listener that other machines can reach, or empty.
func elsewhere(listeners []listener) string {
	for _, l := range listeners {
		if tcp, ok := l.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
			return tcp.String()
		}
	}
	return ""
}

// fromHere tells whether a connection comes from this machine.
func fromHere(conn net.Conn) bool {
	tcp, ok := conn.RemoteAddr().(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}
