// Scenario: the disk fails, fills up or is slow

package persist

import (
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// openFaulty opens a new log whose disk can be made to fail.
func openFaulty(t *testing.T, change func(*LogOptions)) (*Log, *vfs.Faulty, *clock) {
	c := newClock()
	faulty := vfs.NewFaulty(newFS(t))
	opts := smallLog(faulty, c)
	change(&opts)
	l, _, err := OpenLog(opts, 0, discard)
	must(t, err)
	return l, faulty, c
}

// TestFullDisk: the next segment cannot be preallocated. Changes are refused while what was let in still fits, and
// taken again when there is space.
func TestFullDisk(t *testing.T) {
	l, faulty, c := openFaulty(t, func(o *LogOptions) { o.FirstSegmentBytes, o.SegmentBytes = 8<<10, 8<<10 })
	faulty.Inject(vfs.Rule{Ops: vfs.OpPreallocate, Every: 1, Err: syscall.ENOSPC})
	var pos uint64
	n := 0
	for l.Ready() == nil {
		for range 5 {
			pos = l.AppendSet(1, 1, uint64(n), 1)
		}
		must(t, l.Commit(pos)) // never fails: it fits
		l.Tick()
		if n++; n > 1000 {
			t.Fatal("a full disk was never noticed")
		}
	}
	if err := l.Ready(); !errors.Is(err, format.ErrNotReady) || !vfs.IsNoSpace(err) || !strings.Contains(err.Error(), "no space") {
		t.Error("got", err)
	}
	if l.Stats().Trouble != nil {
		t.Error("trouble:", l.Stats().Trouble)
	}
	used := l.Position()
	faulty.Clear()
	c.At = c.At.Add(time.Second)
	l.Tick()
	l.Tick()
	must(t, l.Ready())
	for l.Position() < used+20<<10 {
		must(t, l.Commit(l.AppendSet(1, 1, 1, 1)))
	}
	must(t, l.Close())
}

// fill appends until the log takes no more, with its background at work.
func fill(t *testing.T, l *Log) {
	t.Helper()
	for n := 0; l.Ready() == nil; n++ {
		if n > 100_000 {
			t.Fatal("a full disk was never noticed")
		}
		must(t, l.Commit(l.AppendSet(1, 1, uint64(n), 1))) // never fails: what Ready lets in fits
		l.Tick()
	}
}

// TestSmallRoom: where a segment of full size does not fit a smaller one does. What Reserve keeps free is left alone,
// and the log takes changes again when there is room beyond it.
func TestSmallRoom(t *testing.T) {
	const least, largest, disk, reserve = 4 << 10, 64 << 10, 300 << 10, 50 << 10
	c := newClock()
	fsys := newFS(t)
	fsys.SetCapacity(disk)
	opts := smallLog(fsys, c)
	opts.FirstSegmentBytes, opts.SegmentBytes = least, largest
	l, _, err := OpenLog(opts, 0, discard)
	must(t, err)
	l.Reserve(reserve)
	free := func() int64 {
		space, err := fsys.Space(testDir)
		must(t, err)
		return space.Free
	}
	fill(t, l)
	if f := free(); f < reserve || f >= reserve+least {
		t.Errorf("%d bytes are left free, want %d and less than a segment", f, reserve)
	}
	err = l.Ready()
	if noRoom := (*logfile.NoRoomError)(nil); !errors.As(err, &noRoom) || !vfs.IsNoSpace(err) || !errors.Is(err, format.ErrNotReady) {
		t.Errorf("got %v", err)
	}
	l.Reserve(reserve - 20<<10) // 20 KiB of room: less than the 64 that the next segment would have
	l.Tick()
	must(t, l.Ready())
	fill(t, l)
	if f := free(); f < reserve-20<<10 || f >= reserve-20<<10+least {
		t.Errorf("%d bytes are left free", f)
	}
	must(t, l.Segments().DropBefore(l.Position()))
	l.Tick()
	must(t, l.Ready())
	must(t, l.Close())
}

// TestQuota: the disk says that there is room and refuses to give it, as with a quota. The log asks for less.
func TestQuota(t *testing.T) {
	l, faulty, _ := openFaulty(t, func(o *LogOptions) { o.FirstSegmentBytes, o.SegmentBytes = 4<<10, 64<<10 })
	for range 3 {
		fill := l.Position() + 8<<10
		for l.Position() < fill {
			must(t, l.Commit(l.AppendSet(1, 1, 1, 1)))
			l.Tick()
		}
		faulty.Clear()
		faulty.Inject(vfs.Rule{Ops: vfs.OpPreallocate, Err: syscall.EDQUOT}, vfs.Rule{Ops: vfs.OpPreallocate, Skip: 1, Err: syscall.EDQUOT})
	}
	if s := l.Stats(); faulty.Fired() < 2 || s.Trouble != nil || s.Rewrites != 0 {
		t.Errorf("%d refused, %+v", faulty.Fired(), s)
	}
	must(t, l.Ready())
	must(t, l.Close())
}

// TestSlowDisk: under everysec changes are refused once the oldest unsynced byte is 2 s old.
func TestSlowDisk(t *testing.T) {
	l, _, c := openFaulty(t, func(*LogOptions) {})
	age := func() {
		l.mu.Lock()
		l.judge.age() // as the timer does
		l.mu.Unlock()
	}
	must(t, l.Commit(l.AppendSet(1, 1, 1, 1)))
	c.At = c.At.Add(1900 * time.Millisecond)
	age()
	must(t, l.Ready())
	c.At = c.At.Add(200 * time.Millisecond)
	age()
	if err := l.Ready(); !errors.Is(err, format.ErrNotReady) || !strings.Contains(err.Error(), "slow") {
		t.Error("got", err)
	}
	if got := l.Stats().UnsyncedAge; got != 2100*time.Millisecond {
		t.Errorf("unsynced age %v", got)
	}
	l.SetPolicy(SyncNo) // promises nothing
	must(t, l.Ready())
	l.SetPolicy(SyncEverySec)
	if l.Ready() == nil {
		t.Error("ready again under everysec")
	}
	l.Tick()
	must(t, l.Ready())
	if s := l.Stats(); s.UnsyncedAge != 0 || s.Durable != s.Position {
		t.Errorf("stats %+v", s)
	}
	must(t, l.Close())
}

// TestUnsyncedLimit: Ready refuses at MaxUnsynced; Commit waits for the disk from half of it on.
func TestUnsyncedLimit(t *testing.T) {
	l, _, _ := openFaulty(t, func(o *LogOptions) { o.Policy, o.MaxUnsynced = SyncNo, 4<<10 })
	pos := uint64(0)
	for pos < 1<<10 {
		pos = l.AppendSet(1, 1, 1, 1)
	}
	must(t, l.Commit(pos))
	if l.Durable() != 0 {
		t.Error("synced early")
	}
	for pos < 3<<10 {
		pos = l.AppendSet(1, 1, 1, 1)
	}
	must(t, l.Commit(pos))
	pos = l.AppendSet(1, 1, 1, 1)
	must(t, l.Commit(pos)) // now it is known how much there is
	if l.Durable() < 3<<10 {
		t.Errorf("commit did not wait for the disk: durable %d", l.Durable())
	}
	must(t, l.Close())
}

// TestTrouble: a disk that cannot take anything. Commit and Ready say so with the cause, reads go on, and when the disk
// is well everything that was appended is durable, on no descriptor that failed.
func TestTrouble(t *testing.T) {
	l, faulty, c := openFaulty(t, func(o *LogOptions) { o.Policy = SyncAlways })
	must(t, l.Commit(l.AppendSet(1, 1, 1, 1)))
	safe := l.Position()
	r, err := l.NewReader(0)
	must(t, err)
	faulty.Inject(vfs.Rule{Ops: vfs.OpMutating, Every: 1, Err: syscall.EROFS})
	pos := l.AppendSet(1, 1, 2, 2)
	err = l.Commit(pos)
	if !errors.Is(err, format.ErrNotReady) || !errors.Is(err, syscall.EROFS) {
		t.Error("commit: got", err)
	}
	if err := l.Ready(); !errors.Is(err, format.ErrNotReady) || !errors.Is(err, syscall.EROFS) {
		t.Error("ready: got", err)
	}
	if l.Durable() != safe || l.Sync() == nil {
		t.Error("durable", l.Durable())
	}
	f, err := r.TryNext()
	must(t, err)
	if f.End() != safe {
		t.Errorf("read up to %d, want %d", f.End(), safe)
	}
	fired := faulty.Fired()
	l.Tick() // too early to try again
	if faulty.Fired() != fired {
		t.Error("no pause between attempts")
	}
	for range 4 {
		c.At = c.At.Add(maxHealDelay)
		l.Tick()
	}
	if s := l.Stats(); s.FailedRewrites != 5 || s.Trouble == nil {
		t.Errorf("stats %+v", s)
	}
	faulty.Clear()
	c.At = c.At.Add(maxHealDelay)
	l.Tick()
	must(t, l.Ready())
	must(t, l.Commit(pos))
	if l.Durable() != pos {
		t.Errorf("durable %d, want %d", l.Durable(), pos)
	}
	f, err = r.TryNext()
	must(t, err)
	if f == nil || f.End() != pos {
		t.Errorf("reader got %+v after the repair", f)
	}
	must(t, r.Close())
	must(t, l.Close())
}

// TestTroubleConcurrent runs appenders and a reader against a disk that fails now and then, with the background at
// work.
func TestTroubleConcurrent(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncAlways, SyncEverySec} {
		t.Run(policy.String(), func(t *testing.T) {
			disk := newFS(t)
			faulty := vfs.NewFaulty(disk)
			opts := LogOptions{FS: faulty, Dir: testDir, Create: true, Policy: policy, FirstSegmentBytes: 4 << 10, SegmentBytes: 16 << 10,
				SyncEvery: time.Millisecond}
			l, _, err := OpenLog(opts, 0, discard)
			must(t, err)
			faulty.Inject(vfs.Rule{Ops: vfs.OpMutating, Skip: 50, Every: 37, Err: syscall.EIO})
			const writers, each = 6, 200
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					for i := range each {
						for l.Ready() != nil {
							time.Sleep(time.Millisecond)
						}
						pos := l.AppendSet(uint32(w), 0, uint64(i), uint64(i))
						for {
							err := l.Commit(pos)
							if err == nil {
								break
							}
							if !errors.Is(err, format.ErrNotReady) {
								t.Error(err)
								return
							}
							time.Sleep(time.Millisecond)
						}
					}
				})
			}
			wg.Wait()
			faulty.Clear()
			must(t, l.Close())
			if faulty.Fired() == 0 {
				t.Error("nothing failed")
			}
			next := make([]uint64, writers)
			opts.Manual, opts.FS = true, disk.Crash(1, 0)
			l, _, err = OpenLog(opts, 0, func(_ uint64, r *format.Record) error {
				if r.Mid != next[r.Counter] {
					t.Errorf("writer %d: record %d, want %d", r.Counter, r.Mid, next[r.Counter])
				}
				next[r.Counter]++
				return nil
			})
			must(t, err)
			for w, n := range next {
				if n != each {
					t.Errorf("writer %d: %d records, want %d", w, n, each)
				}
			}
			must(t, l.Close())
			if misuse := disk.Misuse(); len(misuse) > 0 {
				t.Error(misuse)
			}
			if leaks := disk.Leaks(); len(leaks) > 0 {
				t.Error("open files:", leaks)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	_, _, err := OpenLog(LogOptions{Policy: 7, FirstSegmentBytes: 3, SegmentBytes: 2, MaxUnsynced: 1}, 0, discard)
	for _, want := range []string{"FS", "Dir", "Policy", "FirstSegmentBytes", "SegmentBytes", "MaxUnsynced"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not in %v", want, err)
		}
	}
	for _, p := range []SyncPolicy{SyncAlways, SyncEverySec, SyncNo} {
		got, err := ParseSyncPolicy(p.String())
		must(t, err)
		if got != p {
			t.Errorf("%v parses as %v", p, got)
		}
	}
	if _, err := ParseSyncPolicy("sometimes"); err == nil {
		t.Error("a policy that is none")
	}
}

func TestTooLarge(t *testing.T) {
	l, _, _ := openFaulty(t, func(*LogOptions) {})
	before := l.Position()
	for _, err := range []error{
		func() error { _, err := l.AppendSchema(strings.Repeat("x", format.MaxSchemaText+1)); return err }(),
		func() error {
			_, err := l.AppendItem(1, 1, make([]format.ColumnValue, format.MaxColumns+1))
			return err
		}(),
		func() error { _, err := l.Append(make([]byte, format.MaxAppend+1)); return err }(),
	} {
		if !errors.Is(err, format.ErrTooLarge) {
			t.Error("got", err)
		}
	}
	if l.Position() != before {
		t.Error("something was appended")
	}
	// The largest allowed, in one frame and larger than a segment.
	var records []byte
	for len(records) < format.MaxAppend-format.MaxSetLen {
		records = format.AppendSet(records, 1, 2, 3, 4)
	}
	pos, err := l.Append(records)
	must(t, err)
	must(t, l.Commit(pos))
	r, err := l.NewReader(before)
	must(t, err)
	f, err := r.TryNext()
	must(t, err)
	if string(f.Payload) != string(records) {
		t.Error("the frame differs")
	}
	must(t, r.Close())
	must(t, l.Close())
}
