package format

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/damagetest"
)

// sampleManifest has one of everything.
func sampleManifest() *Manifest {
	return &Manifest{
		Generation: 3, History: testHistory, OldReplID: ReplID{7}, OldEnd: 99, TimeMS: 1_700_000_000_000,
		Offset: 9000, Replay: 8000, NextCounter: 3, NextBlock: 9,
		Schema: []string{"add counter weibo", "add column weibo comment hint=16 max=32 \"x\"\n\xff"},
		Counters: []CounterFiles{
			{ID: 1, Name: "weibo", NextColumn: 4, Blocks: []BlockFile{
				{Tier: TierCold, Block: 2, Lo: 0, Hi: 100, Offset: 8000, Items: 10, Bytes: 500, CRC: 0xff, Name: "2-8000.cold"},
				{Tier: TierOverlay, Block: 2, Lo: 0, Hi: 100, Offset: 8500, Items: 1, Bytes: 180, CRC: 1, Name: "2-8500.hot"},
				{Tier: TierHot, Block: 5, Lo: 100, Hi: 1 << 63, Offset: 9000, Items: 3, Bytes: 200, CRC: 2, Name: "5-9000.hot"},
			}},
			{ID: 2, Name: "empty"},
		},
	}
}

// producersManifest has producers too.
func producersManifest() *Manifest {
	m := sampleManifest()
	m.Producers = &BlockFile{Tier: TierProducers, Block: 7, Offset: 8200, Items: 10000, Bytes: 1 << 24, CRC: 3, Name: "7-8100.hot"}
	return m
}

// movingManifest has groups on their way too.
func movingManifest() *Manifest {
	m := producersManifest()
	m.Moving = []MovingGroups{{"", slot.Set{1<<3 | 1<<4 | 1<<5 | 1<<63, 1}}, {"4f\"1d", slot.Set{0, 0, 0, 1 << 63}}, {"90ab", slot.Set{1}}}
	return m
}

func cursorsManifest() *Manifest {
	m := movingManifest()
	m.Cursors = []Cursor{{"Search-1", "1-0102030405060708-3-77-abcd", 77, 1700000000000}, {"search.2", "1-0102030405060708-3-99-abcd", 99, 1700000000001}}
	return m
}

func tickManifest() *Manifest {
	m := cursorsManifest()
	m.Tick = 1795550400
	return m
}

// slotGroupsManifest is one of a store made of groups: groups 0, 3 and 255 have blocks.
func slotGroupsManifest() *Manifest {
	m := sampleManifest()
	m.SlotGroups = true
	c := &m.Counters[0]
	all := c.Blocks
	c.Blocks = nil
	for i, group := range []uint8{0, 3, 255} {
		for _, b := range all {
			b.Group, b.Block = group, b.Block+m.NextBlock*uint64(i)
			if b.Tier == TierCold {
				b.Name = ColdName(b.Block, b.Offset)
			} else {
				b.Name = ImageName(b.Block, b.Offset)
			}
			c.Blocks = append(c.Blocks, b)
		}
	}
	m.NextBlock *= 3
	return m
}

func TestManifestRoundTrip(t *testing.T) {
	for _, m := range []*Manifest{sampleManifest(), producersManifest(), movingManifest(), cursorsManifest(), tickManifest(), {Generation: 1}} {
		must(t, m.Validate())
		got, err := ParseManifest("m", m.AppendText(nil))
		must(t, err)
		if !reflect.DeepEqual(got, m) {
			t.Errorf("got %+v, want %+v", got, m)
		}
	}
	golden(t, "MANIFEST-v1", sampleManifest().AppendText(nil))
	golden(t, "MANIFEST-v2", producersManifest().AppendText(nil))
	golden(t, "MANIFEST-v4-moving", movingManifest().AppendText(nil))
	golden(t, "MANIFEST-v6-cursors", cursorsManifest().AppendText(nil))
	golden(t, "MANIFEST-v7-tick", tickManifest().AppendText(nil))
	packed := producersManifest()
	packed.LogPacked = true
	text := golden(t, "MANIFEST-v3", packed.AppendText(nil))
	got, err := ParseManifest("m", text)
	must(t, err)
	if !reflect.DeepEqual(got, packed) {
		t.Errorf("got %+v, want %+v", got, packed)
	}
	slotGroups := slotGroupsManifest()
	must(t, slotGroups.Validate())
	if got, err = ParseManifest("m", golden(t, "MANIFEST-v5", slotGroups.AppendText(nil))); err != nil || !reflect.DeepEqual(got, slotGroups) {
		t.Errorf("got %+v, %v, want %+v", got, err, slotGroups)
	}
	// What is said of the directory's log is not for others, who may know no such version.
	golden(t, "MANIFEST-v2", packed.Text())
}

func TestManifestDamage(t *testing.T) {
	damagetest.AllFound(t, sampleManifest().AppendText(nil), isDamage, func(b []byte) error {
		_, err := ParseManifest("m", b)
		return err
	})
}

// resealed returns a manifest's text with something replaced and the checksum made right again.
func resealed(from, to string) []byte { return resealedOf(sampleManifest(), from, to) }

func resealedOf(m *Manifest, from, to string) []byte {
	text := string(m.AppendText(nil))
	text = strings.Replace(text[:strings.Index(text, manifestEnd)], from, to, 1)
	return fmt.Appendf([]byte(text), manifestEnd+"%08x\n", Checksum([]byte(text)))
}

func TestManifestRefused(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     error
	}{
		{"manifest 1", "manifest 8", ErrUnsupportedFormat},
		{"manifest 1", "manifest 2", ErrCorrupt}, // without producers it is written as 1
		{"manifest 1", "manifest 0", ErrCorrupt},
		{"manifest 1", "manifest 01", ErrCorrupt},
		{"generation 3", "generation 0", ErrCorrupt},
		{"generation 3", "generation 18446744073709551616", ErrCorrupt},
		{"replay 8000", "replay 9001", ErrCorrupt},
		{"replica false", "replica maybe", ErrCorrupt},
		{"next-block 9", "next-block 5", ErrCorrupt},
		{"next-counter 3", "next-counter 2", ErrCorrupt},
		{"lo 100 hi", "lo 99 hi", ErrCorrupt},
		{"hi 100", "hi 0", ErrCorrupt},
		{"offset 9000 items", "offset 9001 items", ErrCorrupt},
		{"\nhot", "\nlukewarm", ErrCorrupt},
		{"5-9000.hot", "../5-9000.hot", ErrCorrupt},
		{"5-9000.hot", "5-9000.hot.tmp", ErrCorrupt}, // removed at a start
		{"5-9000.hot", "5-9000.hot.new", ErrCorrupt},
		{"5-9000.hot", "5-9000.cold", ErrCorrupt},
		{"2-8000.cold", "2-8000.hot", ErrCorrupt},
		{"5-9000.hot", "hot", ErrCorrupt},
		{"5-9000.hot", strings.Repeat("5", 200) + ".hot", ErrCorrupt},
		{"5-9000.hot", "2-8500.hot", ErrCorrupt},                        // an image and an overlay lie in one directory
		{"generation 3", "generation 18446744073709551615", ErrCorrupt}, // there is none behind it
		{"next-block 9", "next-block 18446744073709551615", ErrCorrupt},
		{"offset 9000 replay", "offset 18446744073709551615 replay", ErrCorrupt},
		{"crc 00000002", "crc 2", ErrCorrupt},
		{"\ntime", "\n\ntime", ErrCorrupt},
		{`schema "add`, `schema add`, ErrCorrupt},
	} {
		text := resealed(c.from, c.to)
		_, err := ParseManifest("m", text)
		if !errors.Is(err, c.want) || c.want == ErrUnsupportedFormat && errors.Is(err, ErrCorrupt) {
			t.Errorf("%q for %q: got %v, want %v", c.to, c.from, err, c.want)
		}
	}
}

// TestManifestMovingRefused breaks the lines of groups on their way.
func TestManifestMovingRefused(t *testing.T) {
	for _, c := range []struct{ from, to string }{
		{"manifest 4", "manifest 3"},
		{"gone groups 3-5,63-64", "gone groups 3-5,63-256"},
		{"gone groups 3-5,63-64", "gone groups "},
		{"gone groups 3-5,63-64", "gone groups 3-5,63,64"},
		{"gone groups 3-5,63-64\n", "gone groups 3\ngone groups 4\n"},
		{"importing \"90ab\"", "importing \"3\""},
		{"importing \"90ab\"", "importing \"\""},
		{"importing \"90ab\"", "importing \"" + strings.Repeat("9", MaxMoveID+1) + "\""},
	} {
		if _, err := ParseManifest("m", resealedOf(movingManifest(), c.from, c.to)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%q for %q: got %v", c.to, c.from, err)
		}
	}
	damagetest.AllFound(t, movingManifest().AppendText(nil), isDamage, func(b []byte) error {
		_, err := ParseManifest("m", b)
		return err
	})
}

// TestManifestProducersRefused breaks the line of the producers.
func TestManifestProducersRefused(t *testing.T) {
	for _, c := range []struct{ from, to string }{
		{"manifest 2", "manifest 1"},
		{"producers 7", "producers 9"}, // that block is to come
		{"offset 8200", "offset 7999"},
		{"offset 8200", "offset 9001"},
		{`file "7-8100.hot"`, `file "7-8100.cold"`},
		{`file "7-8100.hot"`, `file "../7-8100.hot"`},
		{`file "7-8100.hot"`, `file "5-9000.hot"`}, // a block's
		{"producers 7", "producers 7 lo 0 hi 0"},
		{"\nproducers 7", "\nproducers 7 offset 8200 items 1 bytes 1 crc 00000003 file \"7-8000.hot\"\nproducers 7"},
	} {
		if _, err := ParseManifest("m", resealedOf(producersManifest(), c.from, c.to)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%q for %q: got %v", c.to, c.from, err)
		}
	}
	damagetest.AllFound(t, producersManifest().AppendText(nil), isDamage, func(b []byte) error {
		_, err := ParseManifest("m", b)
		return err
	})
}

func FuzzManifest(f *testing.F) {
	text := sampleManifest().AppendText(nil)
	f.Add(text[:bytes.Index(text, []byte(manifestEnd))])
	text = producersManifest().AppendText(nil)
	f.Add(text[:bytes.Index(text, []byte(manifestEnd))])
	text = movingManifest().AppendText(nil)
	f.Add(text[:bytes.Index(text, []byte(manifestEnd))])
	f.Add([]byte(manifestTitle + "1\n"))
	f.Add([]byte(manifestTitle + "1\ngeneration 1\nreplid 0102 epoch 1\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		text := fmt.Appendf(bytes.Clone(body), manifestEnd+"%08x\n", Checksum(body))
		m, err := ParseManifest("m", text)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnsupportedFormat) {
				t.Fatal(err)
			}
			return
		}
		if !bytes.Equal(m.AppendText(nil), text) {
			t.Fatal("text is not what the manifest writes")
		}
	})
}
