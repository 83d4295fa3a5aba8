package cluster

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/node"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
)

// twoShards is a map of two shards that lead.
func twoShards(t *testing.T) (*topology.Map, func(m *topology.Map, c topology.Change, err error) *topology.Map) {
	t.Helper()
	apply := func(m *topology.Map, c topology.Change, err error) *topology.Map {
		t.Helper()
		if err == nil {
			m, err = m.Apply(c)
		}
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m, err := topology.NewMap(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		c, err := topology.RegisterNode(m, topology.Node{ID: id(i), Host: "h", Port: 1 + i, Version: "1"})
		m = apply(m, c, err)
	}
	c, err := topology.CreateCluster(m, "an id", time.Now(), 0, 1)
	m = apply(m, c, err)
	for i, groups := range topology.Deal(2) {
		c, err := topology.AddShard(m, []topology.NodeID{id(i)}, groups)
		m = apply(m, c, err)
		c, err = topology.Promote(m, topology.ShardID(i+1), id(i))
		m = apply(m, c, err)
	}
	return m, apply
}

// TestBackupSteady goes through a move, a failover and a change of the schema: archives that were begun before and behind the
// commit of a move, or any other change, are not of one cluster. While a move copies, and when it is accepted, they are.
func TestBackupSteady(t *testing.T) {
	before, apply := twoShards(t)
	if err := unchanged(before, before); err != nil {
		t.Fatal(err)
	}
	refused := func(m *topology.Map, what string) {
		t.Helper()
		var changed *unsteadyError
		if err := unchanged(before, m); !errors.As(err, &changed) || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want %s", err, what)
		}
	}
	var some slot.Set
	some.Add(3)
	c, err := topology.StartMove(before, "m", some, 1, 2, time.Now())
	copying := apply(before, c, err)
	refused(copying, "shard 1 was changed")
	if err := unchanged(copying, copying); err != nil {
		t.Errorf("while the move copies: %v", err)
	}
	if err := resting(copying); err == nil {
		t.Error("a cluster with a move rests")
	}
	c, err = topology.CommitMove(copying, "m", copying.Move("m").Revision, 1, 0, topology.LogPoint{Epoch: 1})
	committed := apply(copying, c, err)
	refused(committed, "groups 3 have just moved from shard 1 to 2")
	c, err = topology.MoveDropped(committed, "m")
	dropped := apply(committed, c, err)
	refused(dropped, "groups 3 have just moved from shard 1 to 2")
	c, err = topology.MoveAccepted(committed, "m")
	accepted := apply(committed, c, err)
	refused(accepted, "shard 1 was changed")
	if err := unchanged(accepted, accepted); err != nil {
		t.Errorf("while the source drops what has moved: %v", err)
	}
	c, err = topology.MoveAccepted(dropped, "m")
	if m := apply(dropped, c, err); len(m.Moves) > 0 {
		t.Fatalf("got moves %v", m.Moves)
	}

	c, err = topology.Promote(before, 2, id(1))
	refused(apply(before, c, err), "shard 2 was changed")
	c, err = topology.SetSchema(before, "a text", "ADD COUNTER x")
	refused(apply(before, c, err), "the schema was changed")
}

// TestBackupManifest changes each byte of a manifest: it is refused, or says the same.
func TestBackupManifest(t *testing.T) {
	dir := t.TempDir()
	b := &clusterBackup{Format: 1, Cluster: "an id", Name: "t", From: time.UnixMilli(1).UTC(), To: time.UnixMilli(5).UTC(), Revision: 9}
	for i, groups := range topology.Deal(2) {
		b.Shards = append(b.Shards, backupShard{ID: topology.ShardID(i + 1), Epoch: 3, ReplID: "r", Offset: 1 << 60, Groups: groups,
			File: archiveName(topology.ShardID(i + 1)), Bytes: 7, CRC: "00000000"})
	}
	if err := b.write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := readBackup(dir)
	if err != nil || !reflect.DeepEqual(got, b) {
		t.Fatalf("got %+v, %v", got, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, backupManifest))
	if err != nil {
		t.Fatal(err)
	}
	for i := range text {
		for _, bit := range []byte{1, 0x10, 0x20} {
			text[i] ^= bit
			if got, err := parseBackup(text); err == nil && !reflect.DeepEqual(got, b) {
				t.Fatalf("byte %d: got %+v of\n%s", i, got, text)
			}
			text[i] ^= bit
		}
	}
	for _, wrong := range []struct {
		change func(b *clusterBackup)
		want   string
	}{
		{func(b *clusterBackup) { b.Format = 2 }, "format 2"},
		{func(b *clusterBackup) { b.Schema = "x" }, "schema"},
		{func(b *clusterBackup) { b.Shards[0].Groups.Remove(7) }, "lacks the groups 7"},
		{func(b *clusterBackup) { b.Shards[1].Groups.Add(0) }, "the groups 0 twice"},
		{func(b *clusterBackup) { b.Shards[1].File = "../shard-2.archive" }, "want shard-2.archive"},
	} {
		other := *b
		other.Shards = append([]backupShard(nil), b.Shards...)
		wrong.change(&other)
		if err := other.write(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := readBackup(dir); err == nil || !strings.Contains(err.Error(), wrong.want) {
			t.Errorf("got %v, want %s", err, wrong.want)
		}
	}
}

func FuzzBackupManifest(f *testing.F) {
	f.Add([]byte(`{"backup":{"format":1,"shards":[{"id":1,"groups":"0-255","file":"shard-1.archive"}]},"crc32c":"00000000"}`))
	f.Add([]byte(`{"backup":{},"crc32c":""}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := parseBackup(text)
		if err != nil {
			return
		}
		dir := t.TempDir()
		if err := b.write(dir); err != nil {
			t.Fatal(err)
		}
		if again, err := readBackup(dir); err != nil || !reflect.DeepEqual(again, b) {
			t.Fatalf("got %+v, %v, want %+v", again, err, b)
		}
	})
}

// TestArchiveEnd sends an archive and its mark in pieces of every length.
func TestArchiveEnd(t *testing.T) {
	mark := "0123456789abcdefghijABCDEFGHIJKLMNOPQRST"
	content := mark[:39] + "x" + mark[1:] + mark[:20] // nearly the mark
	for n := 1; n < len(content)+len(mark); n++ {
		here, there := net.Pipe()
		go func() {
			for text := content + mark; len(text) > 0; text = text[min(n, len(text)):] {
				_, _ = io.WriteString(there, text[:min(n, len(text))])
			}
			there.Close()
		}()
		var got bytes.Buffer
		take := &taking{shard: &topology.Shard{ID: 1}, node: &node.Node{Addr: "a"}, sock: here, in: bufio.NewReader(here), end: mark}
		if err := take.copy(&got, func(int) {}); err != nil || got.String() != content {
			t.Fatalf("pieces of %d: got %q, %v", n, got.String(), err)
		}
		here.Close()
	}
	here, there := net.Pipe()
	go func() {
		_, _ = io.WriteString(there, content+mark[:39])
		there.Close()
	}()
	take := &taking{shard: &topology.Shard{ID: 1}, node: &node.Node{Addr: "a"}, sock: here, in: bufio.NewReader(here), end: mark}
	if err := take.copy(io.Discard, func(int) {}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v of one that breaks off", err)
	}
}
