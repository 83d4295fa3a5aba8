package wire

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"
)

// Conn is a connection to a server: a socket, a Reader of its replies, and room for commands.
//
// One goroutine may send while another receives; beyond that it is not safe for concurrent use.
type Conn struct {
	Reader
	Out  []byte // commands not yet sent, appended by the caller
	sock net.Conn
	stop func() bool // takes back that the end of a context closes sock; nil where none does
}

// Options say how to connect.
type Options struct {
	User     string        // sent by AUTH before the password where not empty
	Password string        // sent by AUTH where not empty
	Timeout  time.Duration // of connecting; zero means 5 s
	Buffer   int           // bytes for commands, and for replies; zero means StartSize
	Answer   time.Duration // sets a deadline so far ahead once connected, for AUTH and the following commands; zero sets none
	Dead     time.Duration // the system ends the connection when the other machine acknowledges nothing for so long; zero: its default
	Local    net.Addr      // to connect from; nil: the system chooses
	TLS      *tls.Config   // nil: the connection is not encrypted
	Connect  Connect       // makes the connection; nil: the system does
}

// Connect makes a connection to an address, as net.Dialer.DialContext does. Tests give a simulated network.
type Connect func(ctx context.Context, network, address string) (net.Conn, error)

// connect makes the connection within Timeout.
func (o *Options) connect(ctx context.Context, network, address string) (net.Conn, error) {
	if o.Connect == nil {
		dialer := net.Dialer{Timeout: o.Timeout, LocalAddr: o.Local}
		return dialer.DialContext(ctx, network, address)
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	return o.Connect(ctx, network, address)
}

// Dial connects to "host:port", or to a unix socket where addr has a slash. When ctx ends, so does the connection:
// while it is made and ever after.
func Dial(ctx context.Context, addr string, opts Options) (*Conn, error) {
	network := "tcp"
	if strings.Contains(addr, "/") {
		network = "unix"
	}
	if opts.Timeout == 0 {
		opts.Timeout = 5 * time.Second
	}
	sock, err := opts.connect(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if tcp, ok := sock.(*net.TCPConn); ok && opts.Dead > 0 {
		if err := endDead(tcp, opts.Dead); err != nil {
			sock.Close()
			return nil, err
		}
	}
	if opts.TLS != nil {
		if sock, err = handshake(ctx, sock, opts); err != nil {
			return nil, err
		}
	}
	if opts.Buffer == 0 {
		opts.Buffer = StartSize
	}
	c := NewConn(sock, opts.Buffer)
	c.stop = context.AfterFunc(ctx, func() { sock.Close() })
	if opts.Answer > 0 {
		if err := c.SetDeadline(time.Now().Add(opts.Answer)); err != nil {
			c.Close()
			return nil, err
		}
	}
	if opts.Password != "" {
		if err := c.authenticate(opts.User, opts.Password); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// handshake makes a connection one of TLS, or closes it. It has as much time again as connecting had.
func handshake(ctx context.Context, sock net.Conn, opts Options) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, opts.Timeout)
	defer cancel()
	conn := tls.Client(sock, opts.TLS)
	if err := conn.HandshakeContext(ctx); err != nil {
		sock.Close()
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return conn, nil
}

// NewConn returns a Conn over a socket, which it then owns, with buffers of that size.
func NewConn(sock net.Conn, size int) *Conn {
	return &Conn{Reader: *NewReader(sock, size), Out: make([]byte, 0, size), sock: sock}
}

// Flush sends the content of Out, and empties it.
func (c *Conn) Flush() error {
	_, err := c.sock.Write(c.Out)
	c.Out = c.Out[:0]
	return err
}

// Send sends b at once, past Out.
func (c *Conn) Send(b []byte) error {
	_, err := c.sock.Write(b)
	return err
}

// Do sends one command and waits for its reply. An error reply has the command's name in front.
func (c *Conn) Do(args ...string) (Value, error) {
	c.Out = AppendCommand(c.Out, args...)
	if err := c.Flush(); err != nil {
		return Value{}, err
	}
	v, err := c.ReadValue()
	if failed, ok := err.(*ServerError); ok {
		return Value{}, fmt.Errorf("%s: %w", strings.ToUpper(args[0]), failed)
	}
	return v, err
}

// SetDeadline makes calls that take longer than until then fail; the zero time lifts it. Safe for concurrent use.
func (c *Conn) SetDeadline(t time.Time) error { return c.sock.SetDeadline(t) }

// SetReadDeadline is SetDeadline for calls that receive.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.sock.SetReadDeadline(t) }

// SetWriteDeadline is SetDeadline for calls that send.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.sock.SetWriteDeadline(t) }

// Close closes the socket; calls that wait on it fail. Safe for concurrent use.
func (c *Conn) Close() error {
	if c.stop != nil {
		c.stop()
	}
	return c.sock.Close()
}

// Detach returns the socket, which is the caller's from now on: the end of a context does not close it any more. REQUIRES
// that all replies to sent commands were read. It is nil where the context has ended.
func (c *Conn) Detach() net.Conn {
	if c.stop != nil && !c.stop() {
		return nil
	}
	return c.sock
}

// SameHost tells whether the server runs on this machine, as far as the addresses tell.
func (c *Conn) SameHost() bool {
	remote, isTCP := c.sock.RemoteAddr().(*net.TCPAddr)
	if !isTCP {
		return true
	}
	local, isTCP := c.sock.LocalAddr().(*net.TCPAddr)
	return isTCP && local.IP.Equal(remote.IP)
}

// RemoteAddr returns the server's address.
func (c *Conn) RemoteAddr() string { return c.sock.RemoteAddr().String() }

// LocalAddr returns the address that the connection comes from.
func (c *Conn) LocalAddr() string { return c.sock.LocalAddr().String() }
