package persist

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/counterd/counterd/persist/format"
)

// model is the list of records appended, as text by the offset behind them.
type model struct {
	pos  []uint64
	text []string
}

func (m *model) add(pos uint64, text string) {
	m.pos = append(m.pos, pos)
	m.text = append(m.text, text)
}

func recordText(r *format.Record) string {
	if old := r.Old; old.Told {
		r := *r
		r.Old.Told = false
		return fmt.Sprintf("%s old %v", recordText(&r), old.Columns)
	}
	switch r.Kind {
	case format.KindSet:
		return fmt.Sprintf("set %d %d %d %d", r.Counter, r.Column, r.Mid, r.Value)
	case format.KindSetItem:
		return fmt.Sprintf("item %d %d %v", r.Counter, r.Mid, r.Columns)
	case format.KindDelete:
		return fmt.Sprintf("del %d %d", r.Counter, r.Mid)
	case format.KindSchema:
		return fmt.Sprintf("schema %s", r.Text)
	case format.KindDefine:
		return fmt.Sprintf("define %d %q epoch %d base %d", r.Number, r.Text, r.Epoch, r.Seq)
	case format.KindImport, format.KindAccept, format.KindDrop:
		var groups []string
		for g := range 256 {
			if r.Groups.Has(uint8(g)) {
				groups = append(groups, fmt.Sprint(g))
			}
		}
		return fmt.Sprintf("%s %q %s", r.Kind, r.Text, strings.Join(groups, ","))
	case format.KindRows:
		var columns []uint16
		for _, c := range r.Columns {
			columns = append(columns, c.Column)
		}
		return fmt.Sprintf("rows %d %v %q", r.Counter, columns, r.Text)
	case format.KindTick:
		return fmt.Sprintf("tick %d", r.Value)
	case format.KindDropRange:
		return fmt.Sprintf("droprange %d %d %d %s", r.Counter, r.Mid, r.Value, r.Groups)
	case format.KindCursor:
		return fmt.Sprintf("cursor %s %d %q", r.Text, r.Value, r.Position)
	case format.KindFloor:
		return fmt.Sprintf("floor %d %d", r.Number, r.Seq)
	case format.KindOnce:
		return fmt.Sprintf("once %d %d hash %x group %d %s %d %q", r.Number, r.Seq, r.Hash, r.Group, r.Result, r.Value, r.Text)
	}
	return r.Kind.String()
}

// checkReplay opens the log of fsys and compares it with the model: it must be a prefix that includes everything up to
// acked. It returns the log.
func (m *model) checkReplay(t testing.TB, opts LogOptions, from, acked uint64) (*Log, Recovery) {
	t.Helper()
	i := 0
	for i < len(m.pos) && m.pos[i] <= from {
		i++
	}
	l, rec, err := OpenLog(opts, from, func(pos uint64, r *format.Record) error {
		if i >= len(m.pos) {
			return fmt.Errorf("record %d at %d: want the end, got %s", i, pos, recordText(r))
		}
		if pos != m.pos[i] || recordText(r) != m.text[i] {
			return fmt.Errorf("record %d: want %q at %d, got %q at %d", i, m.text[i], m.pos[i], recordText(r), pos)
		}
		i++
		return nil
	})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	if rec.End < acked {
		t.Fatalf("log ends at %d, acknowledged were %d bytes; torn: %v", rec.End, acked, rec.Torn)
	}
	if i < len(m.pos) && m.pos[i] <= rec.End {
		t.Fatalf("log ends at %d, but record %d at %d was not replayed", rec.End, i, m.pos[i])
	}
	if l.Position() != rec.End || l.Durable() != rec.End {
		t.Fatalf("position %d, durable %d, want the end %d", l.Position(), l.Durable(), rec.End)
	}
	return l, rec
}

// Cutting makes the model what the log has up to end.
func (m *model) cut(end uint64) {
	n := len(m.pos)
	for n > 0 && m.pos[n-1] > end {
		n--
	}
	m.pos, m.text = m.pos[:n], m.text[:n]
}

// appendSome appends one record of some kind.
func (m *model) appendSome(t testing.TB, l *Log, i int) uint64 {
	var pos uint64
	var err error
	var text string
	mid := uint64(19089006004 + i*4000)
	switch i % 7 {
	case 3:
		columns := []format.ColumnValue{{Column: 1, Value: uint64(i)}, {Column: 2, Value: 1 << 40}}
		pos, err = l.AppendItem(2, mid, columns)
		text = fmt.Sprintf("item 2 %d %v", mid, columns)
	case 4:
		pos = l.AppendDelete(2, mid)
		text = fmt.Sprintf("del 2 %d", mid)
	case 5:
		pos, err = l.AppendSchema(fmt.Sprintf("add counter c%d", i))
		text = fmt.Sprintf("schema add counter c%d", i)
	case 6:
		pos = l.AppendFlush()
		text = "flush"
	default:
		pos = l.AppendSet(1, uint16(i%300), mid, uint64(i))
		text = fmt.Sprintf("set 1 %d %d %d", i%300, mid, i)
	}
	must(t, err)
	m.add(pos, text)
	return pos
}

func TestLogRestart(t *testing.T) {
	fsys, c := newFS(t), newClock()
	var m model
	l, rec, err := OpenLog(smallLog(fsys, c), 0, discard)
	must(t, err)
	if rec.End != 0 || rec.Torn != nil {
		t.Fatalf("new log: %+v", rec)
	}
	for round := range 5 {
		for i := range 50 {
			pos := m.appendSome(t, l, round*100+i)
			if i%3 == 0 {
				must(t, l.Commit(pos))
			}
			if i%17 == 0 {
				c.At = c.At.Add(time.Second)
				l.Tick()
			}
		}
		end := l.Position()
		must(t, l.Close())
		var rec Recovery
		l, rec = m.checkReplay(t, smallLog(fsys, c), 0, end)
		if rec.Torn != nil {
			t.Fatal("torn after Close:", rec.Torn)
		}
		if rec.History != testHistory {
			t.Fatalf("history %+v", rec.History)
		}
	}
	// From the middle of the log, also of a frame: exactly the records behind it.
	must(t, l.Close())
	for i := 0; i < len(m.pos); i += 13 {
		n := i + 1
		l, _, err := OpenLog(smallLog(fsys, c), m.pos[i], func(pos uint64, r *format.Record) error {
			if pos != m.pos[n] || recordText(r) != m.text[n] {
				return fmt.Errorf("want %q at %d, got %q at %d", m.text[n], m.pos[n], recordText(r), pos)
			}
			n++
			return nil
		})
		must(t, err)
		if n != len(m.pos) {
			t.Fatalf("from %d: %d records, want %d", m.pos[i], n, len(m.pos))
		}
		must(t, l.Close())
	}
	if leaks := fsys.Leaks(); len(leaks) > 0 {
		t.Error("open files:", leaks)
	}
	if misuse := fsys.Misuse(); len(misuse) > 0 {
		t.Error(misuse)
	}
}

func TestLogReaderFollows(t *testing.T) {
	fsys, c := newFS(t), newClock()
	var m model
	l, _, err := OpenLog(smallLog(fsys, c), 0, discard)
	must(t, err)
	r, err := l.NewReader(0)
	must(t, err)
	read := 0
	var rec format.Record
	drain := func(r *Reader, after uint64, next *int) {
		t.Helper()
		for {
			f, err := r.TryNext()
			must(t, err)
			if f == nil {
				return
			}
			must(t, f.Records(&rec, after, func(pos uint64, r *format.Record) error {
				if pos != m.pos[*next] || recordText(r) != m.text[*next] {
					return fmt.Errorf("want %q at %d, got %q at %d", m.text[*next], m.pos[*next], recordText(r), pos)
				}
				*next++
				return nil
			}))
		}
	}
	for i := range 300 {
		pos := m.appendSome(t, l, i)
		if i%5 == 0 {
			must(t, l.Commit(pos))
			drain(r, 0, &read)
			if read != len(m.pos) {
				t.Fatalf("read %d records of %d", read, len(m.pos))
			}
		}
		if i%40 == 0 {
			l.Tick()
		}
	}
	must(t, l.Sync())
	for i := 0; i < len(m.pos); i += 7 {
		r, err := l.NewReader(m.pos[i])
		must(t, err)
		n := i + 1
		drain(r, m.pos[i], &n)
		if n != len(m.pos) {
			t.Fatalf("from %d: read to record %d of %d", m.pos[i], n, len(m.pos))
		}
		must(t, r.Close())
	}
	if _, err := l.NewReader(l.Position() + 1); !errors.Is(err, format.ErrAhead) {
		t.Error("want ErrAhead, got", err)
	}
	for range 50 {
		must(t, l.Commit(m.appendSome(t, l, len(m.pos))))
	}
	must(t, l.Segments().DropBefore(0))
	segs := l.Segments().List()
	must(t, l.Segments().DropBefore(segs[3].Start+1))
	if got := l.Segments().List(); got[0].Start != segs[3].Start {
		t.Errorf("first segment is %+v, want %+v", got[0], segs[3])
	}
	if _, err := l.NewReader(segs[3].Start - 1); !errors.Is(err, format.ErrGone) {
		t.Error("want ErrGone, got", err)
	}
	must(t, l.Segments().DropBefore(l.Position()))
	if first, durable := l.Segments().List()[0], l.Durable(); first.Start >= durable || durable == l.Position() {
		t.Errorf("segments kept from %d, durable is %d", first.Start, durable)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	drain(r, 0, &read)
	if _, err := r.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Error("want Canceled, got", err)
	}
	must(t, r.Close())
	must(t, l.Close())
	if _, _, err := OpenLog(smallLog(fsys, c), 0, discard); !errors.Is(err, format.ErrGap) {
		t.Error("want ErrGap for dropped offset 0, got", err)
	}
	if leaks := fsys.Leaks(); len(leaks) > 0 {
		t.Error("open files:", leaks)
	}
}

func TestLogConcurrent(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncEverySec, SyncAlways, SyncNo} {
		t.Run(policy.String(), func(t *testing.T) {
			fsys := newFS(t)
			opts := LogOptions{FS: fsys, Dir: testDir, Create: true, Policy: policy, FirstSegmentBytes: 4 << 10, SegmentBytes: 16 << 10,
				SyncEvery: time.Millisecond}
			l, _, err := OpenLog(opts, 0, discard)
			must(t, err)
			const writers, each = 8, 300
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					for i := range each {
						if err := l.Ready(); err != nil {
							t.Error(err)
							return
						}
						var pos uint64
						for range 1 + i%5 {
							pos = l.AppendSet(uint32(w), 0, uint64(i), uint64(i))
						}
						if err := l.Commit(pos); err != nil {
							t.Error(err)
							return
						}
						if l.Written() < pos || policy == SyncAlways && l.Durable() < pos {
							t.Errorf("commit of %d returned with %d written, %d durable", pos, l.Written(), l.Durable())
						}
					}
				})
			}
			done := make(chan struct{})
			wg.Go(func() {
				defer close(done)
				r, err := l.NewReader(0)
				if err != nil {
					t.Error(err)
					return
				}
				defer r.Close()
				var rec format.Record
				last := map[uint32]uint64{}
				for n := 0; n < writers*each*3; {
					f, err := r.Next(context.Background())
					if err != nil {
						t.Error(err)
						return
					}
					if err := f.Records(&rec, 0, func(_ uint64, r *format.Record) error {
						if r.Mid < last[r.Counter] {
							t.Errorf("writer %d: %d after %d", r.Counter, r.Mid, last[r.Counter])
						}
						last[r.Counter] = r.Mid
						n++
						return nil
					}); err != nil {
						t.Error(err)
						return
					}
				}
			})
			wg.Wait()
			must(t, l.Close())
			if err := l.Ready(); !errors.Is(err, format.ErrNotReady) || !errors.Is(err, format.ErrClosed) {
				t.Error("Ready of a closed log:", err)
			}
			n := 0
			opts.Manual = true
			l, _, err = OpenLog(opts, 0, func(uint64, *format.Record) error { n++; return nil })
			must(t, err)
			if n != writers*each*3 {
				t.Errorf("%d records, want %d", n, writers*each*3)
			}
			must(t, l.Close())
			if misuse := fsys.Misuse(); len(misuse) > 0 {
				t.Error(misuse)
			}
			if leaks := fsys.Leaks(); len(leaks) > 0 {
				t.Error("open files:", leaks)
			}
		})
	}
}
