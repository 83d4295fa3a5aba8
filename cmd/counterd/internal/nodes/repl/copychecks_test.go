// Scenario: the files and the log of a full copy do not fit together, or are not whole.

package repl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// copiedAs returns the answers of a primary to a node that asks it for a full copy. change is called when the files were sent, and damage is
// given each file.
func (h *testHost) copiedAs(t testing.TB, damage func(b *format.BlockFile, file []byte), change func()) (out []byte, behindFiles int) {
	t.Helper()
	var ps Peers
	p := ps.NewPeer(&scripted{})
	defer p.Close()
	p.takesCursors = !h.noCursors
	out, _, err := p.Sync(h.Store(), "?", "-1")
	if err != nil {
		t.Fatal(err)
	}
	m := p.pin.Manifest
	err = m.Files(func(_ *format.CounterFiles, b *format.BlockFile) error {
		file, err := vfs.ReadFile(h.sim, b.Path("data"), 1<<30)
		if err == nil {
			damage(b, file)
		}
		out = fmt.Appendf(out, "$%d\r\n%s\r\n", len(file), file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	behindFiles = len(out)
	change()
	reply, _, err := p.Sync(h.Store(), "?", strconv.FormatUint(m.Replay, 10))
	if err != nil {
		t.Fatal(err)
	}
	return append(append(out, reply...), h.stream(t, p.reader.Pos())...), behindFiles
}

// TestHistoryChangesDuringCopy: the primary's log goes on in another term while its files are copied. The new log is not put
// together with them.
func TestHistoryChangesDuringCopy(t *testing.T) {
	w := newWorld(t)
	said, _ := w.primary.copiedAs(t, func(*format.BlockFile, []byte) {}, func() {
		if _, err := w.primary.Store().Replication().Lead(); err != nil {
			t.Fatal(err)
		}
	})
	h, err := w.hears(t, append([]byte(hello), said...), true)
	if !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), "has changed while") {
		t.Errorf("%v", err)
	}
	if at := w.sound(t, h); at != w.behind {
		t.Errorf("the log ends at %d, want %d as before", at, w.behind)
	}
}

// TestUnverifiedFile: the link is cut behind a file that was damaged on the way. The next link asks for that file again.
func TestUnverifiedFile(t *testing.T) {
	w := newWorld(t)
	cold := 0
	bad, end := w.primary.copiedAs(t, func(b *format.BlockFile, file []byte) {
		if b.Tier == format.TierCold {
			cold++
			file[len(file)/3] ^= 1
		}
	}, func() {})
	if cold == 0 {
		t.Fatal("no cold file")
	}
	h := &testHost{t: t, sim: w.replica.Kill()}
	h.open()
	l := newTestLink(t, h, true)
	if err := l.hears(append([]byte(hello), bad[:end]...)); err == nil {
		t.Fatal("no error")
	}
	conn := &recorded{scripted: scripted{in: bytes.NewReader(append([]byte(hello), bad[:bytes.Index(bad, []byte("\r\n$"))+2]...))}}
	if err := (&session{Link: l, conn: wire.NewConn(conn, linkBuffer)}).run(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if !bytes.Contains(conn.said, []byte("\r\nfetch\r\n$4\r\ncold\r\n")) {
		t.Errorf("the damaged file is taken as it is: %q", conn.said)
	}
	w.sound(t, h)
}

// TestCopyInPlaceOfOwnLog: a node of a cluster whose log a copy replaces counts as a node that lacks acknowledged changes.
func TestCopyInPlaceOfOwnLog(t *testing.T) {
	w := newWorld(t)
	h := &testHost{t: t, sim: vfs.NewSim(), options: func(o *counter.Options) { o.Elected = true }}
	s := h.open()
	log := s.Replication()
	if _, err := log.LeadAt(900); err != nil {
		t.Fatal(err)
	}
	log.Confirm(counter.Everywhere)
	if err := errors.Join(s.AlterScript("add counter x\nadd column x n hint=8 max=30 suffix=n"), s.Set("3.n", 5), log.Yield()); err != nil {
		t.Fatal(err)
	}
	h.commit()
	if log.Behind() {
		t.Fatal("it lacks something before")
	}
	if err := newTestLink(t, h, true).hears(append([]byte(hello), w.copied(t)...)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	defer h.Store().Close()
	if !h.Store().Replication().Behind() {
		t.Error("the node counts as one that has all that it acknowledged")
	}
}

// TestDamagedImageIsNotSent: a primary reads an image before it sends it.
func TestDamagedImageIsNotSent(t *testing.T) {
	w := newWorld(t)
	h := w.primary
	p := new(Peers).NewPeer(&scripted{})
	defer p.Close()
	if _, _, err := p.Sync(h.Store(), "?", "-1"); err != nil {
		t.Fatal(err)
	}
	var image *format.BlockFile
	_ = p.pin.Manifest.Files(func(_ *format.CounterFiles, b *format.BlockFile) error {
		if b.Tier == format.TierHot {
			image = b
		}
		return nil
	})
	fetch := func() error {
		file, _, err := p.Fetch(string(image.Tier), image.Name)
		if err == nil {
			err = file.Close()
		}
		return err
	}
	if err := fetch(); err != nil {
		t.Fatal(err)
	}
	file, err := h.sim.OpenRW(image.Path("data"))
	if err == nil {
		_, err = file.WriteAt([]byte{0x55, 0xaa}, int64(image.Bytes)/2)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := fetch(); err == nil || !strings.Contains(err.Error(), "an image is damaged") {
		t.Errorf("a damaged image: %v", err)
	}
}

// TestForgottenRole: a note of whom a node followed is gone, durably, when the node has forgotten it.
func TestForgottenRole(t *testing.T) {
	h := &testHost{t: t, sim: vfs.NewSim()}
	h.open()
	defer h.Store().Close()
	n := newTestNode(h)
	if err := errors.Join(n.remember(Address{"10.0.0.1", 7}), n.forget()); err != nil {
		t.Fatal(err)
	}
	if _, err := h.sim.Crash(1, 0).Stat("data/" + primaryName); !isNotExist(err) {
		t.Errorf("after a power loss the node follows again: %v", err)
	}
}
