//go:build linux && !noepoll

package front

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
)

// BenchmarkSecureTurn measures a turn of one command by TLS, with the side of the client: a record comes, and a reply is sent. It has no loop,
// so that cachegrind can count its instructions.
func BenchmarkSecureTurn(b *testing.B) {
	h := serveTLS(b, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	line, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	t := newSecure(conn, h.handshakes.config)
	shaken := make(chan error, 1)
	go func() { shaken <- t.conn.Handshake() }()
	c := tls.Client(line, h.ca.Client())
	if err := c.Handshake(); err != nil {
		b.Fatal(err)
	}
	if err := <-shaken; err != nil {
		b.Fatal(err)
	}
	s := socket{secure: t}
	if err := s.open(conn); err != nil {
		b.Fatal(err)
	}
	defer s.free()
	t.over(&s)
	command, reply, buf := []byte("*2\r\n$4\r\nINCR\r\n$19\r\n1234567890123.cntcm\r\n"), []byte(":17\r\n"), make([]byte, 8<<10)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(command); err != nil {
			b.Fatal(err)
		}
		n := 0
		for n == 0 {
			if n, err = s.receive(buf); err != nil {
				b.Fatal(err)
			}
		}
		if n != len(command) {
			b.Fatalf("got %d bytes", n)
		}
		if _, err := s.offer(reply); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, buf[:len(reply)]); err != nil {
			b.Fatal(err)
		}
	}
}
