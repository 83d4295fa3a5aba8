package delayproxy

import (
	"io"
	"net"
	"testing"
	"time"
)

// TestDelay sends bytes to an echo: they come back in order, after a round trip at least, and the end comes too.
func TestDelay(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				c.Close()
			}()
		}
	}()
	p := New(t, l.Addr().String(), 1)
	const roundTrip = 60 * time.Millisecond
	p.Set(roundTrip, 20*time.Millisecond)
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	for i := range 3 {
		began := time.Now()
		sent := make([]byte, 100_000)
		for j := range sent {
			sent[j] = byte(i + j*j)
		}
		go c.Write(sent)
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(c, got); err != nil {
			t.Fatal(err)
		}
		if string(got) != string(sent) {
			t.Fatal("bytes are not in order")
		}
		if took := time.Since(began); took < roundTrip-20*time.Millisecond {
			t.Errorf("a round trip took %v, want %v or more", took, roundTrip-20*time.Millisecond)
		}
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("got %d bytes, %v, want the end", n, err)
	}
}
