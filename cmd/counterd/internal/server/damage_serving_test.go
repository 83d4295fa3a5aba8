// Scenario: a file of a node is damaged while the node serves, and nobody gets a wrong answer.

package server

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// servingDamages damage a file that a process has open. A file is never written as a whole, as a disk does not do
// that either.
var servingDamages = []struct {
	name string
	make func(path string, r *rand.Rand) error
}{
	{"bit flipped", func(path string, r *rand.Rand) error {
		return inPlace(path, func(b []byte) (int, []byte) {
			at := r.IntN(used(b))
			return at, []byte{b[at] ^ 1<<r.IntN(8)}
		})
	}},
	{"torn page", func(path string, r *rand.Rand) error {
		return inPlace(path, func(b []byte) (int, []byte) {
			n := min(512, max(used(b)/2, 1))
			at := r.IntN(used(b)-n+1) / n * n
			page := slices.Clone(b[at : at+n])
			for i := n / 2; i < n; i++ {
				page[i] = byte(r.Uint32())
			}
			return at, page
		})
	}},
	{"range zeroed", func(path string, r *rand.Rand) error {
		return inPlace(path, func(b []byte) (int, []byte) {
			n := used(b)
			return n / 3, make([]byte, min(4096, n/2))
		})
	}},
	{"truncated", func(path string, r *rand.Rand) error {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.Truncate(path, int64(r.IntN(used(b))))
	}},
	{"emptied", func(path string, _ *rand.Rand) error { return os.Truncate(path, 0) }},
	{"deleted", func(path string, _ *rand.Rand) error { return os.Remove(path) }},
}

// inPlace changes some bytes of a file.
func inPlace(path string, change func(b []byte) (at int, now []byte)) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(path)
	if err == nil {
		at, now := change(b)
		_, err = f.WriteAt(now, int64(at))
	}
	return errors.Join(err, f.Close())
}

// servingModel has the values of the posts: each lies between the changes acknowledged before a read and those sent by its end.
type servingModel struct {
	sure, most []atomic.Uint64
}

// bump has a client count a post up. An error means that the change may have been made.
func (m *servingModel) bump(c *wireClient, mid int) (ok bool) {
	m.most[mid].Add(1)
	got := c.do(fmt.Sprintf("INCR %d.cntcm", mid))
	n, err := strconv.ParseUint(strings.TrimPrefix(got.String(), ":"), 10, 64)
	if err != nil {
		if strings.HasPrefix(got.Text, "IOERR ") { // nothing was changed
			m.most[mid].Add(^uint64(0))
		}
		return false
	}
	m.sure[mid].Store(n)
	return true
}

// check reads a post and judges the answer. seen is what this node answered before.
func (m *servingModel) check(c *wireClient, mid int, replica bool, seen *uint64) (whole bool, wrong string) {
	least := m.sure[mid].Load()
	if replica { // it may be behind, but never goes back
		least = *seen
	}
	got := c.do(fmt.Sprintf("GET %d.cntcm", mid))
	n, err := strconv.ParseUint(strings.Trim(got.String(), `"`), 10, 64)
	if err != nil {
		if slices.ContainsFunc([]string{"LOADING ", "MASTERDOWN ", "IOERR "}, func(code string) bool { return strings.HasPrefix(got.Text, code) }) {
			return false, ""
		}
		return false, fmt.Sprintf("post %d: %q", mid, got)
	}
	if most := m.most[mid].Load(); n < least || n > most {
		return false, fmt.Sprintf("post %d is %d, want %d to %d", mid, n, least, most)
	}
	*seen = n
	return true, ""
}

// damageless names damage in the directory of a node that is open; "": there is none.
func damageless(n *replNode) string {
	view := datadir.NewView(vfs.OS(), n.dir)
	report, err := datadir.Check(view, n.dir, datadir.CheckOptions{Cold: counter.ColdVerifier(view)})
	if err != nil {
		return err.Error()
	}
	for _, p := range report.Problems {
		if p.Fatal || errors.Is(p.Err, format.ErrCorrupt) {
			return p.Err.Error()
		}
	}
	return ""
}

// TestServingHeals damages a file of a primary, or of its replica, while both serve and change. No read is wrong. The node finds
// the damage, mends it without a person, without a full copy and without a restart, and its directory is whole again.
func TestServingHeals(t *testing.T) {
	p := newDamagePair(t)
	r := seed.Rand(t)
	type cell struct{ who, kind, damage int }
	var list []cell
	for who := range 2 {
		for k := range damageKinds {
			for d := range servingDamages {
				if who == 1 && damageKinds[k].name == "PRIMARY" { // a primary has no such file
					continue
				}
				list = append(list, cell{who, k, d})
			}
		}
	}
	if !*allDamage {
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		list = list[:4]
	}
	for _, cell := range list {
		kind, d := damageKinds[cell.kind], servingDamages[cell.damage]
		name := []string{"replica", "primary"}[cell.who]
		t.Run(name+"/"+kind.name+"/"+d.name, func(t *testing.T) {
			p.t = t
			p.reset(t)
			p.a.start("")
			p.b.start("")
			same(t, p.a, p.b)
			n := []*replNode{p.b, p.a}[cell.who]
			path := kind.find(t, n.dir)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			model := &servingModel{sure: make([]atomic.Uint64, p.posts), most: make([]atomic.Uint64, p.posts)}
			w := p.a.dial()
			for i := range p.posts {
				v, _ := strconv.ParseUint(strings.Trim(w.do(fmt.Sprintf("GET %d.cntcm", i)).String(), `"`), 10, 64)
				model.sure[i].Store(v)
				model.most[i].Store(v)
			}
			full := p.a.info("sync_full")
			var stop atomic.Bool
			var readers sync.WaitGroup
			var wholeRounds [2]atomic.Int64
			for i, node := range []*replNode{p.a, p.b} {
				c, seen := node.dial(), make([]uint64, p.posts)
				readers.Go(func() {
					for !stop.Load() {
						whole := true
						for mid := range p.posts {
							ok, wrong := model.check(c, mid, i == 1, &seen[mid])
							whole = whole && ok
							if wrong != "" {
								t.Error(wrong)
								return
							}
						}
						if whole {
							wholeRounds[i].Add(1)
						}
						time.Sleep(20 * time.Millisecond)
					}
				})
			}
			stopReaders := sync.OnceFunc(func() {
				stop.Store(true)
				readers.Wait()
			})
			defer stopReaders()
			if err := d.make(path, r); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			last := ""
			untilEach(t, 50*time.Millisecond, "the node is whole", func() bool { // it reads all files
				if err := n.srv.Store().Admin().Scrub(); err != nil && !errors.Is(err, counter.ErrScrubbing) {
					t.Fatal(err)
				}
				model.bump(w, r.IntN(p.posts))
				now := damageless(n)
				if is, err := os.ReadFile(path); kind.name == "PRIMARY" && now == "" && string(is) != string(text) {
					now = fmt.Sprintf("PRIMARY: %q, %v", is, err)
				}
				if log := n.srv.Store().Replication(); now == "" { // a directory looks whole without its first segment
					if r, err := log.NewReader(log.First()); err != nil {
						now = err.Error()
					} else {
						r.Close()
					}
				}
				if now != last {
					last = now
					t.Logf("after %v: %.120q", time.Since(began).Round(time.Millisecond), now)
				}
				return last == "" && len(counter.DamagedRanges(n.srv.Store())) == 0
			})
			t.Logf("whole after %v", time.Since(began).Round(time.Millisecond))
			for i := range wholeRounds {
				before := wholeRounds[i].Load()
				until(t, "all posts are read", func() bool { return wholeRounds[i].Load() > before+1 || t.Failed() })
			}
			stopReaders()
			for range 20 {
				if !model.bump(w, r.IntN(p.posts)) {
					t.Error("a change is refused")
				}
			}
			if now := p.a.info("sync_full"); now != full {
				t.Errorf("%s full copies, and %s before", now, full)
			}
			same(t, p.a, p.b)
			p.sameCounts()
			n.stop()
			n.start("")
			same(t, p.a, p.b)
			p.sameCounts()
			if n.info("counterd_healing") != "0" || n.info("cold_files_unusable") != "0" {
				t.Error("the restart met damage")
			}
			if aside, _ := filepath.Glob(filepath.Join(n.dir, "*.damaged-*")); len(aside) > 0 {
				t.Errorf("files were set aside: %v", aside)
			}
			c := n.dial()
			for mid := range p.posts {
				seen := model.sure[mid].Load()
				if ok, wrong := model.check(c, mid, cell.who == 0, &seen); !ok {
					t.Errorf("behind a restart: %s", wrong)
				}
			}
		})
	}
}
