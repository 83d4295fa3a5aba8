package simulation

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"github.com/counterd/counterd/persist/vfs"
)

// A process has one code, so a node of an older version is a node of this one that speaks with others as the older version did: words that
// an older version does not know are renamed on its links, to words of the same length that nobody knows. A replica of it announces
// less, and its primary hears of nothing more; a primary of it refuses the options that it does not know.

// dialect is the words of REPLCONF that versions before a number do not know.
type dialect struct {
	until int // versions below it
	words []string
}

// Versions of nodes. A node of a cluster has always said which process it is, as the in-sync set is of processes.
const (
	versionBeforeProcesses = iota // on links of nodes without etcd
	versionBeforeMessages         // of PUBLISH, and of how far the log is confirmed
	versionBeforeComparing        // and before posts are healed by range
	versionNow
)

var dialects = []dialect{
	{versionBeforeMessages, []string{"process"}},
	{versionBeforeComparing, []string{"publish", "spublish", "confirmed"}},
	{versionNow, []string{"compare", "heal", "rows", "frames", "last-frames"}},
}

// spoken returns the bytes that arrive of those that go between two nodes, of which one has an older version.
func spoken(b []byte, version int) []byte {
	if version >= versionNow || !bytes.Contains(b, []byte("REPLCONF")) {
		return b
	}
	for _, d := range dialects {
		if version >= d.until {
			continue
		}
		for _, word := range d.words {
			b = bytes.ReplaceAll(b, []byte("\r\n"+word+"\r\n"), []byte("\r\n"+word[:len(word)-1]+"-\r\n"))
		}
	}
	return b
}

// age makes the nodes older ones, some or all.
func (c *Config) age(d *Dice) {
	c.Older = 1 + d.N(versionNow-1)
	if c.Standalone && d.Chance(600) {
		c.Older = versionNow
	}
	c.Decay, c.Weights[decayed] = false, 0 // older nodes do not help to heal
	c.Weights[upgraded] = 2 + d.N(6)
	c.Released = c.Standalone && d.Chance(500)
}

// grow draws the versions that the machines begin with: in many runs all are of one older version.
func (r *Run) grow(d *Dice) {
	for _, m := range r.Machines {
		m.version.Store(versionNow)
	}
	if r.Config.Older == 0 {
		return
	}
	mixed := d.Chance(300)
	for _, m := range r.Machines {
		m.version.Store(int32(versionNow - r.Config.Older))
		if mixed {
			m.version.Store(int32(versionNow - d.N(r.Config.Older+1)))
		}
	}
}

// upgrade replaces the program of one machine by the newest: the node is stopped or killed, often beside a planned failover, and starts
// as another version. Replicas come first in most cases, as the manual says. !ok: all are upgraded.
func (n *nemesis) upgrade(d *Dice) (ok bool) {
	r := n.run
	var older []*Machine
	for _, i := range d.Shuffle(len(r.Machines)) {
		if m := r.Machines[i]; m.version.Load() < versionNow {
			older = append(older, m)
		}
	}
	if len(older) == 0 {
		return false
	}
	m := older[0]
	if p := r.primary(); m == p && len(older) > 1 && d.Chance(700) {
		m = older[1]
	}
	if d.Chance(600) {
		n.switchOver(d)
		time.Sleep(d.Between(0, Pick(d, []time.Duration{50 * time.Millisecond, 2 * time.Second})))
	}
	n.say("%s is upgraded", m.name)
	r.Story.meet("simulation: a node was upgraded")
	if d.Chance(500) {
		m.Kill()
	} else {
		m.Stop()
	}
	m.version.Store(versionNow)
	n.between(d, 0, Pick(d, []time.Duration{time.Millisecond, time.Second, 5 * time.Second}), m.On)
	return true
}

// switchOver has a primary hand its role over, to a node of any version.
func (n *nemesis) switchOver(d *Dice) {
	switch m := Pick(d, n.run.Machines); {
	case n.run.sentinel != nil:
	case n.run.Config.Standalone:
		n.switchRole(d, m)
	default:
		n.ask(m, "CLUSTER", "FAILOVER")
	}
}

// primary is a machine that leads; nil: none does, or there is no cluster.
func (r *Run) primary() *Machine {
	if r.Config.Standalone {
		return nil
	}
	return r.leader(1)
}

// shapeUpgrades begins with older nodes and upgrades them one by one.
func shapeUpgrades(c *Config, d *Dice) {
	if d.Chance(500) {
		c.tiers(d)
	}
	if d.Chance(250) {
		c.evictions(d)
	}
	c.age(d)
}

// released is a data directory as a released version left it; the formats of its files are older than today's. It has one counter,
// whose posts clients do not change.
const (
	released        = "../../../e2e/durability/testdata/releases/0.1.0.tar.gz"
	releasedCounter = "weibo"
)

// unpack puts the files of an archive with one folder into the folder data of a file system, durably.
func unpack(archive string, fsys vfs.FS) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Clean(h.Name)
		for at := 0; at < len(name); at++ {
			if name[at] == '/' {
				name = "data" + name[at:]
				break
			}
		}
		if h.Typeflag == tar.TypeDir {
			if path.Dir(path.Clean(h.Name)) == "." {
				name = "data"
			}
			if err := fsys.MkdirAll(name); err != nil {
				return err
			}
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if err := vfs.WriteFileAtomic(fsys, name, data); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

// inherit gives the first machine the directory of a released version. The others copy it.
func (r *Run) inherit() bool {
	if !r.Config.Released {
		return true
	}
	if err := unpack(released, r.Machines[0].disk); err != nil {
		r.Fault("the directory of the release: %v", err)
		return false
	}
	return true
}

// inherited notes the posts of the release, as the first node serves them.
func (r *Run) inherited() bool {
	if !r.Config.Released {
		return true
	}
	d, err := r.Machines[0].server().Store().Admin().Digests(releasedCounter, 0, 1<<40, 1)
	if err != nil {
		r.Fault("the posts of the release: %v", err)
		return false
	}
	r.inheritance = d[0]
	r.Story.meet("simulation: the first primary has the directory of a release")
	return true
}
