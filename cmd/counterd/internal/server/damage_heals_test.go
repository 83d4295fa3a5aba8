// Scenario: one file of a node is damaged, and the node is whole again without a person.

package server

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// damageKind is a kind of file of a data directory.
type damageKind struct {
	name string
	find func(t *testing.T, dir string) string // a path
}

// fileLike finds the first file that matches, or the last.
func fileLike(pattern string, last bool) func(t *testing.T, dir string) string {
	return func(t *testing.T, dir string) string {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no file, %v", pattern, err)
		}
		if last {
			return files[len(files)-1]
		}
		return files[0]
	}
}

// named finds the file of a block of posts, or of producers, that the newest manifest names.
func named(tier format.Tier, at int) func(t *testing.T, dir string) string {
	return namedOf(tier, at, func(m *format.Manifest, c *format.CounterFiles) bool {
		return tier == format.TierProducers || c.ID == m.Counters[0].ID
	})
}

// counted chooses the counts of a derived column.
func counted(m *format.Manifest, c *format.CounterFiles) bool {
	return c.ID != m.Counters[0].ID
}

// namedOf is named for the counters that of chooses.
func namedOf(tier format.Tier, at int, of func(*format.Manifest, *format.CounterFiles) bool) func(t *testing.T, dir string) string {
	return func(t *testing.T, dir string) string {
		t.Helper()
		manifests, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
		if err != nil || len(manifests) == 0 {
			t.Fatal("no manifest", err)
		}
		slices.SortFunc(manifests, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
		text, err := os.ReadFile(manifests[len(manifests)-1])
		if err != nil {
			t.Fatal(err)
		}
		m, err := format.ParseManifest("", text)
		if err != nil {
			t.Fatal(err)
		}
		var paths []string
		_ = m.Files(func(c *format.CounterFiles, b *format.BlockFile) error {
			if b.Tier == tier && of(m, c) {
				paths = append(paths, b.Path(dir))
			}
			return nil
		})
		if len(paths) == 0 {
			t.Fatalf("the manifest names no file of tier %s", tier)
		}
		return paths[(at+len(paths))%len(paths)]
	}
}

var damageKinds = []damageKind{
	{"image", named(format.TierHot, 0)},
	{"last image", named(format.TierHot, -1)},
	{"counts of a window", namedOf(format.TierHot, 0, counted)},
	{"overlay", named(format.TierOverlay, 0)},
	{"cold file", named(format.TierCold, 0)},
	{"producers", named(format.TierProducers, 0)},
	{"manifest", fileLike("MANIFEST-*", true)},
	{"packed log", fileLike("log/*.aof", false)},
	{"log", fileLike("log/*.aof", true)},
	{"HISTORY", fileLike("HISTORY", false)},
	{"DURABLE", fileLike("DURABLE", false)},
	{"PRIMARY", fileLike("PRIMARY", false)},
}

// damages are what happens to a file. size is that of what counts in it.
var damages = []struct {
	name string
	make func(path string, text []byte) error
}{
	{"bit at the beginning", func(path string, b []byte) error { b[min(20, len(b)-1)] ^= 1; return os.WriteFile(path, b, 0o640) }},
	{"bit in the middle", func(path string, b []byte) error { b[used(b)/2] ^= 1; return os.WriteFile(path, b, 0o640) }},
	{"bit at the end", func(path string, b []byte) error { b[used(b)-1] ^= 1; return os.WriteFile(path, b, 0o640) }},
	{"page zeroed", func(path string, b []byte) error {
		n := used(b)
		clear(b[n/3 : n/3+min(4096, n/2)])
		return os.WriteFile(path, b, 0o640)
	}},
	{"truncated", func(path string, b []byte) error { return os.WriteFile(path, b[:used(b)/2], 0o640) }},
	{"emptied", func(path string, _ []byte) error { return os.WriteFile(path, nil, 0o640) }},
	{"deleted", func(path string, _ []byte) error { return os.Remove(path) }},
}

// used is the length of a file without the zeros at its end.
func used(b []byte) int {
	n := len(b)
	for n > 1 && b[n-1] == 0 {
		n--
	}
	return n
}

// damagePair is a primary and its replica, with all kinds of files, and a copy of what their directories had.
type damagePair struct {
	t         *testing.T
	a, b      *replNode
	templates [2]string
	posts     int
	counts    string // the posts with additions in the window
}

func newDamagePair(t *testing.T) *damagePair {
	t.Helper()
	p := &damagePair{t: t, a: newReplNode(t), b: newReplNode(t), posts: 400}
	for _, n := range []*replNode{p.a, p.b} {
		n.opts.RetainBytes = 1 << 10
		n.opts.CompressLog = true
		n.change = func(c *config.Config) { c.AOFRetain, c.AOFCompress = 1<<10, true }
	}
	p.a.start("")
	p.b.start(p.a.addr())
	w := p.a.dial()
	w.want("ADD COLUMN weibo day window=1d/1h of=repost", "+OK")
	w.want("ALTER COLUMN weibo comment top=5", "+OK")
	for i := range p.posts {
		w.want(fmt.Sprintf("SET %d.cntcm %d", i, i*3), "+OK")
	}
	w.want("INCR 5.cntrn IDMP writer 1", ":1")
	for i := range 100 {
		w.do(fmt.Sprintf("INCRBY %d.cntrn %d", i+20, i))
	}
	same(t, p.a, p.b)
	for k := range 300 {
		w.want("MSET"+strings.Repeat(fmt.Sprintf(" %d.cntrn %d", 7+k, k), 20), "+OK")
	}
	same(t, p.a, p.b)
	p.b.stop() // the log goes on in another segment
	p.a.stop()
	p.a.start("")
	p.b.start("")
	w = p.a.dial()
	w.want("INCR 6.cntrn IDMP writer 2", ":1")
	same(t, p.a, p.b)
	for _, n := range []*replNode{p.a, p.b} {
		n.dial().save()
		n.dial().want("COUNTER.DEMOTE weibo 3", "+OK")
		n.dial().want("COUNTER.DEMOTE weibo 100", "+OK")
	}
	w.want("INCR 4.cntcm", ":13") // an overlay; more of it would bring the block back to memory
	for i := range 2 {
		w.want(fmt.Sprintf("INCR 398.cntrn IDMP writer %d", i+3), fmt.Sprintf(":%d", i+1))
		same(t, p.a, p.b)
		p.a.dial().save()
		p.b.dial().save()
	}
	w.want("SET 399.cntrn 77", "+OK")
	same(t, p.a, p.b)
	p.counts = w.do(damageCounts).String()
	p.sameCounts()
	for i, n := range []*replNode{p.b, p.a} {
		n.stop()
		p.templates[1-i] = t.TempDir()
		copyTree(t, p.templates[1-i], n.dir)
	}
	return p
}

// reset stops the nodes and puts their directories back.
func (p *damagePair) reset(t *testing.T) {
	t.Helper()
	for i, n := range []*replNode{p.a, p.b} {
		n.t = t
		n.stop()
		n.forget()
		if err := os.RemoveAll(n.dir); err != nil {
			t.Fatal(err)
		}
		copyTree(t, n.dir, p.templates[i])
	}
}

func copyTree(t *testing.T, to, from string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o750)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), text, 0o640)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// damage damages a file of a node; false: it has none, or nothing in it.
func damageFile(t *testing.T, path string, how func(string, []byte) error) {
	t.Helper()
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(text) == 0 {
		t.Fatalf("%s is empty", path)
	}
	if err == nil {
		err = how(path, text)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ruin damages a directory so that no start opens it, and another node's log alone does not help: HISTORY and its copy.
func ruin(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{format.HistoryName, format.HistoryName + vfs.CopySuffix} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("counterd history 1\n"), 0o640); err != nil {
			t.Fatal(err)
		}
	}
}

// honest reads all posts of a node: each is what it should be, or an error. It tells whether none is an error.
func (p *damagePair) honest(n *replNode, want []string) (whole bool) {
	p.t.Helper()
	c := n.dial()
	defer c.conn.Close()
	whole = true
	commands := make([]string, p.posts)
	for i := range commands {
		commands[i] = fmt.Sprintf("GET %d.cntcm", i)
	}
	c.sendAll(commands...) // in one write, because until calls honest hundreds of times
	for i := range p.posts {
		got := c.read()
		if got.String() == want[i] {
			continue
		}
		whole = false
		if i == 4 && got.String() == `"13"` {
			continue // a replica that does not have the last change yet
		}
		if !slices.ContainsFunc([]string{"LOADING ", "MASTERDOWN ", "IOERR "}, func(code string) bool { return strings.HasPrefix(got.Text, code) }) {
			p.t.Fatalf("post %d: %q, want %q or an error", i, got, want[i])
		}
	}
	return whole
}

// cells returns the cells of the table that a test tries: three of them, or all with -all-damage.
func cells(t *testing.T) (list [][2]int) {
	for k := range damageKinds {
		for d := range damages {
			list = append(list, [2]int{k, d})
		}
	}
	if !*allDamage {
		r := seed.Rand(t)
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		list = list[:3]
	}
	return list
}

var allDamage = flag.Bool("all-damage", false, "damage each kind of file in each way")

// TestReplicaHeals damages a file of a stopped replica. The replica starts, never gives a wrong answer, and has everything
// again. Its configuration names no primary: the directory does.
func TestReplicaHeals(t *testing.T) {
	p := newDamagePair(t)
	for _, cell := range cells(t) {
		kind, d := damageKinds[cell[0]], damages[cell[1]]
		t.Run(kind.name+"/"+d.name, func(t *testing.T) {
			p.t = t
			p.reset(t)
			p.a.start("")
			damageFile(t, kind.find(t, p.b.dir), d.make)
			w := p.a.dial()
			w.want("INCR 4.cntcm", ":14")
			var want []string
			for i := range p.posts {
				want = append(want, w.do(fmt.Sprintf("GET %d.cntcm", i)).String())
			}
			primary := ""
			if kind.name == "PRIMARY" {
				primary = p.a.addr()
			}
			p.b.start(primary)
			until(t, "the replica is whole", func() bool {
				return p.honest(p.b, want) && p.b.info("master_link_status") == "up" && p.b.info("cold_files_unusable") == "0" && p.b.info("counterd_healing") == "0"
			})
			compare := func() { same(t, p.a, p.b) }
			if kind.name == "packed log" {
				// A snapshot stands above this segment. No start reads it, so it may stay damaged until it is dropped; readers of it
				// get a *CorruptError.
				compare = func() { samePosts(t, p.a, p.b) }
			}
			compare()
			p.sameCounts()
			p.b.stop()
			p.b.start(primary)
			compare()
			p.sameCounts()
			if names, err := os.ReadDir(p.b.dir); err != nil || slices.ContainsFunc(names, func(e fs.DirEntry) bool { return e.Name() == format.HealingName }) {
				t.Errorf("%s is left, %v", format.HealingName, err)
			}
		})
	}
}

// TestColdFileHeals damages cold files of a replica, of a primary, or of both in different ranges, while they serve and change.
// Posts of the range answer errors at worst, and then what they answered before, with all changes.
func TestColdFileHeals(t *testing.T) {
	p := newDamagePair(t)
	list := cells(t)
	for i, who := range []string{"replica", "primary", "both"} {
		d := damages[list[i][1]]
		t.Run(who+"/"+d.name, func(t *testing.T) {
			p.t = t
			p.reset(t)
			p.a.start("")
			p.b.start("")
			same(t, p.a, p.b)
			w := p.a.dial()
			var want []string
			for i := range p.posts {
				want = append(want, w.do(fmt.Sprintf("GET %d.cntcm", i)).String())
			}
			nodes := []*replNode{p.b}
			switch who {
			case "primary":
				nodes = []*replNode{p.a}
			case "both":
				nodes = append(nodes, p.a)
			}
			for i, n := range nodes {
				damageFile(t, named(format.TierCold, i)(t, n.dir), d.make)
			}
			add := func(mid int) { // one that cannot be read cannot be counted on either
				for try := 0; ; try++ {
					got := w.do(fmt.Sprintf("INCR %d.cntcm", mid))
					if !strings.HasPrefix(got.Text, "IOERR") {
						want[mid] = strconv.Quote(strings.TrimPrefix(got.String(), ":"))
						return
					}
					time.Sleep(5 * time.Millisecond)
				}
			}
			w.want("SET 20.cntcm 1234", "+OK")
			want[20] = `"1234"`
			for _, n := range nodes {
				if err := n.srv.Store().Admin().Scrub(); err != nil && !errors.Is(err, counter.ErrScrubbing) {
					t.Fatal(err)
				}
			}
			for i := range 30 {
				add(i)
			}
			until(t, "the replica is at the end", func() bool {
				return p.b.srv.Store().Replication().Position() == p.a.srv.Store().Replication().Position()
			})
			seen := !strings.HasPrefix(d.name, "bit at the") // others are in what is read at the start only
			for _, n := range nodes {
				until(t, "the file is replaced", func() bool {
					return p.honest(n, want) && (n.srv.role.Replication().Refilled().Ranges > 0 || !seen)
				})
			}
			if seen {
				same(t, p.a, p.b)
			}
			for _, n := range nodes {
				until(t, "a snapshot", func() bool { return n.dial().do("SAVE").Text == "OK" })
				n.stop()
				n.start("")
			}
			for _, n := range []*replNode{p.a, p.b} {
				until(t, "all posts are there behind a restart", func() bool { return p.honest(n, want) && len(counter.DamagedRanges(n.srv.Store())) == 0 })
			}
			same(t, p.a, p.b)
		})
	}
}

// TestHealing: a replica whose directory is useless, and whose primary is away, serves nothing, leads nothing, feeds nobody and
// gives no backup, also behind a restart. Nothing of what it had is removed.
func TestHealing(t *testing.T) {
	a, b := newReplNode(t), newReplNode(t)
	a.start("")
	b.start(a.addr())
	w := a.dial()
	w.want("SET 1.cntcm 5", "+OK")
	same(t, a, b)
	b.stop()
	a.stop()
	ruin(t, b.dir)
	for range 2 {
		b.start("")
		r := b.dial()
		for _, command := range []string{"GET 1.cntcm", "SCAN 0", "COUNTER.DIGEST", "SET 1.cntcm 6"} {
			if got := r.do(command).Text; !strings.HasPrefix(got, "MASTERDOWN The data of this node was damaged") && !strings.HasPrefix(got, "READONLY") {
				t.Errorf("%s: %q", command, got)
			}
		}
		if got := r.do("REPLICAOF NO ONE").Text; !strings.Contains(got, "set aside") {
			t.Errorf("it becomes a primary: %q", got)
		}
		if got := r.do("SYNC").Text; !strings.HasPrefix(got, "MASTERDOWN") {
			t.Errorf("a backup of nothing: %q", got)
		}
		peer := b.dial()
		peer.want("REPLCONF listening-port 7 version counterd capa counterd1", "+OK")
		if got := peer.do("PSYNC ? -1").Text; !strings.HasPrefix(got, "NOMASTERLINK") && !strings.HasPrefix(got, "MASTERDOWN") {
			t.Errorf("a replica of it: %q", got)
		}
		if b.info("counterd_healing") != "1" || b.info("slave_priority") != "0" || b.info("role") != "slave" {
			t.Errorf("INFO: healing %s, priority %s, role %s", b.info("counterd_healing"), b.info("slave_priority"), b.info("role"))
		}
		b.stop()
	}
	if files, err := filepath.Glob(filepath.Join(b.dir, "log"+".damaged-1", "*.aof")); err != nil || len(files) == 0 {
		t.Errorf("the log was not kept: %v, %v", files, err)
	}
	a.start("")
	b.start("")
	until(t, "the replica is whole", func() bool { return b.info("counterd_healing") == "0" })
	same(t, a, b)
	b.dial().want("GET 1.cntcm", `"5"`)
	if b.info("counterd_healed") != "1" {
		t.Errorf("healed %s times", b.info("counterd_healed"))
	}
}

// TestHealsFromDamaged: a node whose directory is useless copies another node, and that node has lost a cold file: a replica copies its primary, and a primary its replica.
// The files that were set aside have its posts, so nobody is told to remove them, and a later healing does not either.
func TestHealsFromDamaged(t *testing.T) {
	t.Run("a replica", func(t *testing.T) { healsFromDamaged(t, 0) })
	t.Run("a primary", func(t *testing.T) { healsFromDamaged(t, 1) })
}

func healsFromDamaged(t *testing.T, who int) {
	a, b := filledPair(t)
	w := a.dial()
	for _, n := range []*replNode{a, b} {
		n.dial().save()
		n.dial().want("COUNTER.DEMOTE weibo 3", "+OK")
		w.want("INCR 399.cntrn", ":"+map[*replNode]string{a: "1", b: "2"}[n])
		same(t, a, b)
		n.dial().save()
	}
	useless, from := [...]*replNode{b, a}[who], [...]*replNode{a, b}[who]
	useless.stop()
	files, err := filepath.Glob(filepath.Join(from.dir, "cold", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	damageFile(t, files[0], func(path string, b []byte) error { b[len(b)/3] ^= 1; return os.WriteFile(path, b, 0o640) })
	for n := 1; n <= 2; n++ {
		ruin(t, useless.dir)
		useless.forget()
		useless.start("")
		until(t, "the node has what there is", func() bool { return useless.info("counterd_healing") == "0" })
		if useless.said("this node has all data again") || !useless.said("keep the damaged files") {
			t.Error("it does not say that posts are lost")
		}
		until(t, "the replica follows", func() bool { return b.info("master_link_status") == "up" })
		useless.stop()
		for set := 1; set <= n; set++ {
			if kept, _ := filepath.Glob(filepath.Join(useless.dir, fmt.Sprintf("cold.damaged-%d", set), "*")); len(kept) == 0 {
				t.Errorf("the cold files of set %d are gone", set)
			}
		}
	}
}

// TestClusterNodeHeals damages a file of a stopped node of a shard that was in sync. The node starts, never leads while it lacks something,
// and is in sync again. It copies all data only where HISTORY and its copy are damaged.
func TestClusterNodeHeals(t *testing.T) {
	t.Parallel()
	k := joinNodes(t, 3)
	k.create(0, 1, 2)
	k.alter(wireSchema)
	want := 0
	incr := func() {
		w := wireDial(t, k.nodes[k.primary()], 2)
		defer w.conn.Close()
		for range 10 {
			want++
			w.want("INCR {42}.cntcm", fmt.Sprintf(":%d", want))
		}
	}
	const both = format.HistoryName + "*" // the file and its copy
	for _, name := range []string{format.HistoryName, "log/*.aof", "node.json", both} {
		incr()
		p := k.primary()
		port, id := k.nodes[p].config.Get().Port, k.id(p)
		k.stop(p)
		files, err := filepath.Glob(filepath.Join(k.dirs[p], name))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", name, files, err)
		}
		if name != both {
			files = files[:1]
		}
		for _, file := range files {
			damageFile(t, file, damages[4].make)
		}
		k.await("another leads", func() bool { return k.primary() >= 0 })
		incr()
		k.start(p, port)
		if got := k.id(p); got != id {
			t.Errorf("%s: the node is %s now, and was %s", name, got, id)
		}
		k.await("it is in sync again", func() bool {
			return len(k.view().Shards[0].InSync) == 3 && k.nodes[p].role.Replication().Healing() == nil
		})
		if healed, copied := k.nodes[p].role.Replication().Healer().Healed(), setAside(t, k.dirs[p]); (healed == 1) != (name == both) || (len(copied) > 0) != (name == both) {
			t.Errorf("%s: healed %d times by a full copy, set aside: %q", name, healed, copied)
		}
	}
	incr()
	k.await("all have all", func() bool {
		for _, srv := range k.nodes {
			if n, _, err := srv.Store().Get("42.cntcm"); err != nil || n != uint64(want) {
				return false
			}
		}
		return true
	})
}

// TestDamagedNodeLeavesInSync damages a file of a stopped node that stays in the in-sync set, as too few would stay without it. When
// it starts, the primary takes it out of the set, in which it would count as a node with all acknowledged changes.
func TestDamagedNodeLeavesInSync(t *testing.T) {
	t.Parallel()
	k := joinNodes(t, 3)
	k.create(0, 1, 2)
	k.alter(wireSchema)
	w := wireDial(t, k.nodes[k.primary()], 2)
	w.want("INCR {42}.cntcm", ":1")
	w.conn.Close()
	p := k.primary()
	gone, b := (p+1)%3, (p+2)%3
	k.stop(gone)
	k.await("two are in sync", func() bool { return len(k.view().Shards[0].InSync) == 2 })
	port, id := k.nodes[b].config.Get().Port, k.id(b)
	k.stop(b)
	if shard := k.view().Shards[0]; !shard.Has(id) {
		t.Fatalf("in sync are %s, want %s too", shard.InSync, id)
	}
	ruin(t, k.dirs[b])
	before := k.nodes[p].cluster.Stats()
	k.start(b, port)
	k.await("it has all data", func() bool { return k.nodes[b].role.Replication().Healer().Healed() == 1 })
	k.await("it left the in-sync set", func() bool { return k.nodes[p].cluster.Stats().Shrinks > before.Shrinks })
	k.await("it is in sync again", func() bool { return k.view().Shards[0].Has(id) })
}
