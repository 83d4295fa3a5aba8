package repl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/persist/format"
)

// FuzzStream feeds the replica's side with bytes: it ends with an error, and takes memory for one frame at most.
func FuzzStream(f *testing.F) {
	frame := make([]byte, format.FrameHeaderLen+5)
	binary.LittleEndian.PutUint32(frame[4:], 5)
	f.Add(append(appendPing([]byte{msgFrame}, 0)[:1], frame...))
	f.Add(appendPing([]byte{msgGetAck}, 77))
	huge := bytes.Clone(frame)
	binary.LittleEndian.PutUint32(huge[4:], 1<<31)
	f.Add(append([]byte{msgFrame}, huge...))
	f.Fuzz(func(t *testing.T, in []byte) {
		mr := messageReader{r: wire.NewReader(bytes.NewReader(in), wire.StartSize)}
		var m message
		total := 0
		for {
			err := mr.next(&m)
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, ErrProtocol) {
					t.Fatal(err)
				}
				break
			}
			switch m.kind {
			case msgFrame:
				total += 1 + len(m.frame)
			case msgPing:
				total += 9
			default:
				total++
			}
		}
		if total > len(in) || len(mr.buf) > format.MaxFramePayload+format.FrameHeaderLen+64<<10 {
			t.Errorf("%d of %d bytes read, a buffer of %d", total, len(in), len(mr.buf))
		}
	})
}

// FuzzAnswer feeds the handshake's parsers.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("+CONTINUE 0123 5 3\r\nabc\r\n"))
	f.Add([]byte("\r\n+FULLRESYNC 0123 5 3 4\r\nabc\r\nabcd\r\n"))
	f.Add([]byte("-DIVERGED 5\r\n"))
	f.Add([]byte("+CONTINUE x 5 99999999999\r\n"))
	f.Add([]byte("+FULLRESYNC x 5 -1 9\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := wire.NewReader(bytes.NewReader(in), wire.StartSize)
		line, err := r.ReadLine()
		if err != nil {
			return
		}
		if len(line) > wire.MaxLine+1 {
			t.Errorf("a line of %d bytes", len(line))
		}
		a, err := parseAnswer(line)
		if err != nil {
			return
		}
		if a.first < 0 || a.lineage < 0 {
			t.Errorf("%q reads as %+v", line, a)
		}
		if b, err := readBlob(r, a.lineage, format.MaxLineageText); err == nil && len(b) > format.MaxLineageText {
			t.Error("a blob above its limit")
		}
	})
}

// FuzzReplconf feeds the primary's side.
func FuzzReplconf(f *testing.F) {
	l := format.Lineage{Terms: []format.Term{{ReplID: format.ReplID{1}, Epoch: 1}}}
	f.Add("history", l.AppendText(nil))
	f.Add("listening-port", []byte("6379"))
	f.Add("ip-address", []byte("a\r\nrole:master"))
	f.Add("version", []byte("counterd"))
	f.Fuzz(func(t *testing.T, name string, value []byte) {
		in, out := net.Pipe()
		defer in.Close()
		defer out.Close()
		var ps Peers
		p := ps.NewPeer(in)
		_ = p.Configure(name, value)
		if p.port < 0 || p.port > 65535 || strings.ContainsAny(p.ip, "\r\n") {
			t.Errorf("port %d, ip %q", p.port, p.ip)
		}
	})
}

// TestPeers: WAIT's waiting, and that a peer that is gone does not count.
func TestPeers(t *testing.T) {
	in, out := net.Pipe()
	defer out.Close()
	var ps Peers
	p := ps.NewPeer(in)
	p.online.Store(true)
	ps.add(p)
	go func() {
		time.Sleep(10 * time.Millisecond)
		p.Ack(100, 50)
	}()
	ps.Wait(t.Context(), func() bool { n, _ := ps.Count(100); return n == 1 })
	if applied, durable := ps.Count(60); applied != 1 || durable != 0 {
		t.Errorf("got %d and %d", applied, durable)
	}
	p.Close()
	if n := len(ps.Infos()); n != 0 {
		t.Errorf("%d peers after Close", n)
	}
}
