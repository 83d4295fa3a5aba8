package replication

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// chores are the work of an operator and of other programs beside the load of a server. Each is done now and then, one at a time.
type chores struct {
	*soaked
	rng     *rand.Rand
	columns int
	done    map[string]int
}

// run does one chore after the other until stop is closed.
func (ch *chores) run(stop <-chan struct{}) error {
	all := []struct {
		name string
		do   func() error
	}{
		{"snapshot", func() error { return ch.ask("BGSAVE") }},
		{"add column", func() error {
			ch.columns++
			name := "x" + strconv.Itoa(ch.columns)
			return ch.ask("ADD", "COLUMN", "weibo", name, "hint=4", "max=30", "suffix="+name)
		}},
		{"drop column", func() error {
			if ch.columns == 0 {
				return nil
			}
			ch.columns--
			return ch.ask("DROP", "COLUMN", "weibo", "x"+strconv.Itoa(ch.columns+1))
		}},
		{"cold", func() error { return ch.ask("COUNTER.DEMOTE", "weibo", strconv.FormatInt(ch.someMid(), 10)) }},
		{"hot", func() error { return ch.ask("COUNTER.PROMOTE", "weibo", strconv.FormatInt(ch.someMid(), 10)) }},
		{"find", func() error { return ch.ask("COUNTER.FIND", "weibo", "WHERE", "repost", ">=", "10", "LIMIT", "1000") }},
		{"top", func() error { return ch.ask("COUNTER.TOP", "weibo", "comment", "100") }},
		{"info", func() error { return ch.ask("INFO", "everything") }},
		{"update", func() error {
			return ch.ask("COUNTER.UPDATE", "n", "WHERE", "v", ">=", "0", "INCR", "v", "1", "LIMIT", "1000")
		}},
		{"flush", func() error { return ch.ask("COUNTER.UPDATE", "h", "DEL") }},
		{"transaction", ch.transaction},
		{"connections", ch.connections},
		{"scrape", func() error {
			_, err := ch.scrape()
			return err
		}},
		{"cut", func() error { return ch.ask("CLIENT", "KILL", "TYPE", "replica") }},
		{"backup", ch.backup},
		{"restart", func() error { return ch.restart(false) }},
		{"full copy", func() error { return ch.restart(true) }},
	}
	for {
		one := all[ch.rng.IntN(len(all))]
		select {
		case <-stop:
			return nil
		case <-time.After(harness.RandomPause(ch.rng, 0, ch.pause)):
		}
		if err := one.do(); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		ch.done[one.name]++
	}
}

// mayRefuse are errors that a chore may meet: another snapshot is under way, a range is cold or hot already or holds no posts.
var mayRefuse = map[string]bool{"ERR": true}

// ask sends a request to the primary. The reply does not matter, but there must be a reply.
func (ch *chores) ask(args ...string) error {
	c, err := harness.DialTimeout("tcp", ch.primary.Addr, harness.IoTimeout)
	if err != nil {
		return err
	}
	defer c.Close()
	v, err := c.TryDo(args...)
	if err != nil {
		return err
	}
	if word, _, _ := strings.Cut(v.Text, " "); v.Kind == '-' && !mayRefuse[word] && !harness.RefusedByDisk(v.Raw) {
		return fmt.Errorf("%q answered %q", args, v.Raw)
	}
	return nil
}

// someMid is a mid near those of a flow.
func (ch *chores) someMid() int64 {
	return int64(1+ch.rng.IntN(len(ch.load.flows)))<<40 + ch.rng.Int64N(100_000)
}

// transaction makes posts of a counter that chores remove again.
func (ch *chores) transaction() error {
	c, err := harness.DialTimeout("tcp", ch.primary.Addr, harness.IoTimeout)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.TryDo("MULTI"); err != nil {
		return err
	}
	for range 50 {
		mid := strconv.FormatInt(ch.rng.Int64N(20_000), 10)
		if _, err := c.TryDo("INCR", "n:"+mid); err != nil {
			return err
		}
		if _, err := c.TryDo("HINCRBY", "h:"+mid, "a", "7"); err != nil {
			return err
		}
	}
	v, err := c.TryDo("EXEC")
	if err == nil && len(v.List) != 100 && !harness.RefusedByDisk(v.Raw) && !strings.HasPrefix(v.Raw, "-EXECABORT") {
		err = fmt.Errorf("EXEC answered %.200q", v.Raw)
	}
	return err
}

// connections come, subscribe or track, and go, with replies that nobody reads.
func (ch *chores) connections() error {
	for i := range 50 {
		c, err := harness.DialTimeout("tcp", ch.primary.Addr, harness.IoTimeout)
		if err != nil {
			return err
		}
		switch i % 3 {
		case 0:
			_, err = c.TryDo("SUBSCRIBE", "news", "sport")
		case 1:
			if _, err = c.TryDo("HELLO", "3"); err == nil {
				_, err = c.TryDo("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "n:")
			}
		}
		c.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// backup copies the primary's directory and keeps the newest two copies.
func (ch *chores) backup() error {
	if out, status := harness.Counterctl(ch.t, "backup", ch.primary.Dir, ch.place, "--keep", "2"); status != 0 {
		return fmt.Errorf("status %d: %s", status, out)
	}
	return nil
}

// restart ends the replica by kill -9 and starts it again, with an empty directory or with its own.
func (ch *chores) restart(empty bool) error {
	ch.replica.Kill()
	ch.replica.CheckLog()
	if empty {
		files, err := filepath.Glob(filepath.Join(ch.replica.Dir, "*"))
		if err != nil {
			return err
		}
		for _, name := range files {
			if err := os.RemoveAll(name); err != nil {
				return err
			}
		}
	}
	ch.startReplica()
	return nil
}
