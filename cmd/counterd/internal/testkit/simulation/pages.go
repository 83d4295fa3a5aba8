package simulation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/counterd/counterd/cmd/counterd/internal/server"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/schema"
)

// page is some posts of one hash slot, of the counter p, which always have equal values in all counters: each change of the page changes all of
// them in one change set. An answer with two values has seen half a change.
//
// A page thus has one value, and a History of it. Everyone adds one to a page without an owner. The owner of a page sets it to
// 1, 2, 3 and so on, deletes its posts in place of some of these versions, and sends each until it is answered; so version i is the
// i-th increment of the page.
//
// INVARIANT: deleted rises, and holds versions alone whose change has begun.
type page struct {
	name    string
	mids    []uint64
	owner   string // the client that alone changes it; empty: all do
	history History

	mu      sync.Mutex
	version int64
	deleted []int64 // versions that are deletions; version 0 is one
}

// gone is the value of a page whose posts do not exist, until resolve says which deletion it was.
const gone = -1

// pageColumns are the columns of the counter p, each with a suffix of the same name.
var pageColumns = []string{"pa", "pb"}

// newPages makes the pages of a run: of two, the second has an owner.
func newPages(c *Config) (pages []*page) {
	next := uint64(1000)
	for i := range c.Pages {
		p := &page{name: fmt.Sprint("page", i+1), deleted: []int64{0}}
		if i%2 == 1 && i < c.Clients {
			p.owner = clientName(i)
		}
		for want := slot.Of(next); len(p.mids) < 3; next++ {
			if slot.Of(next) == want {
				p.mids = append(p.mids, next)
			}
		}
		pages = append(pages, p)
	}
	return pages
}

func (p *page) key(mid uint64, column string) string { return fmt.Sprintf("{%d}.%s", mid, column) }

// home is the key by which a client knows where the page is.
func (p *page) home() string { return p.key(p.mids[0], pageColumns[0]) }

// each returns one word list for each counter of the page: before, its key, behind.
func (p *page) each(before string, behind ...string) (list [][]string) {
	for _, mid := range p.mids {
		for _, column := range pageColumns {
			list = append(list, append([]string{before, p.key(mid, column)}, behind...))
		}
	}
	return list
}

// all is one word list: the words, and for each counter of the page its key and the other arguments.
func (p *page) all(word string, behind ...string) []string {
	words := []string{word}
	for _, one := range p.each("", behind...) {
		words = append(words, one[1:]...)
	}
	return words
}

// ids are the ids of the page's posts behind some words.
func (p *page) ids(words ...string) []string {
	for _, mid := range p.mids {
		words = append(words, strconv.FormatUint(mid, 10))
	}
	return words
}

// rows reads the counters of the page as rows, without columns that are derived from them.
func (p *page) rows() []string {
	return append(append(p.ids("COUNTER.MGET", "p"), "COLUMNS"), pageColumns...)
}

// posts are the keys of the page's posts behind a word.
func (p *page) posts(word string) []string {
	words := []string{word}
	for _, mid := range p.mids {
		words = append(words, fmt.Sprintf("p:{%d}", mid))
	}
	return words
}

// transaction puts commands between MULTI and EXEC.
func transaction(commands [][]string) [][]string {
	return slices.Concat([][]string{{"MULTI"}}, commands, [][]string{{"EXEC"}})
}

// begin is the next version of an owned page.
func (p *page) begin(deletion bool) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version++
	if deletion {
		p.deleted = append(p.deleted, p.version)
	}
	return p.version
}

// value is that of all counters in an answer about the page. half: they are not the same.
func (p *page) value(leaves []wire.Value) (value int64, half bool) {
	for i, v := range leaves {
		n, err := strconv.ParseInt(v.Text(), 10, 64)
		if v.Null { // a post that does not exist, whose counters are 0
			n, err = 0, nil
		}
		if err != nil || i > 0 && n != value {
			return 0, true
		}
		value = n
	}
	if value == 0 && p.owner != "" {
		value = gone
	}
	return value, len(leaves) == 0
}

// leaves are the elements of an answer that are no arrays.
func leaves(v wire.Value) (list []wire.Value) {
	if v.Array == nil {
		return []wire.Value{v}
	}
	for _, one := range v.Array {
		list = append(list, leaves(one)...)
	}
	return list
}

// failing is the first error among the elements of an answer.
func failing(list []wire.Value) (text string) {
	for _, v := range list {
		if v.IsErr {
			return v.Str
		}
	}
	return ""
}

// resolve names the version that each read of a page without posts has seen. Where several are possible, the read says nothing and is
// left out; where none is, the posts were gone though no change deleted them.
func (p *page) resolve(final int64) (known int64, faults []string) {
	p.history.mu.Lock()
	defer p.history.mu.Unlock()
	list := p.history.keys[p.name]
	p.history.keys[p.name] = slices.DeleteFunc(list, func(a attempt) bool {
		if a.value != gone || a.outcome != acknowledged {
			return false
		}
		least, most := int64(0), int64(0)
		for _, b := range list {
			switch {
			case b.read:
			case b.outcome == acknowledged && b.till < a.from:
				least, most = max(least, b.value), max(most, b.value)
			case b.from <= a.till:
				most = max(most, b.value)
			}
		}
		n := 0
		for _, version := range p.deleted {
			n += toInt(version >= least && version <= most)
		}
		if n == 0 {
			faults = append(faults, fmt.Sprintf("%s: the posts were gone between version %d and %d, neither of which deletes: %s", p.name, least, most, a))
		}
		return true
	})
	if final == gone {
		final = p.deleted[len(p.deleted)-1]
	}
	return final, faults
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// verifyPages compares each page's last value with its history.
func (r *Run) verifyPages() {
	for _, p := range r.pages {
		final, got := int64(0), outcome(refused)
		if !r.await("the last value of "+p.name+" is read", func() string {
			if final, got = r.operator.seePage(p, r.readingPage(p, 0)); got != acknowledged {
				return "it is refused"
			}
			return ""
		}) {
			continue
		}
		faults := p.check(r, final)
		if len(faults) > 0 {
			r.Story.Say("", "%s: %s", p.name, strings.Join(faults, "\n"))
		}
		for _, fault := range faults {
			r.Fault("%s", fault)
		}
	}
}

// check compares the history with the last value, by the promise that the run's nodes make. final is gone if the posts do not exist.
func (p *page) check(r *Run, final int64) []string {
	if r.searches() {
		return r.search(p.name, p.versions(), max(0, final))
	}
	final, faults := p.resolve(final)
	if r.Config.Sentinel { // a read may see a change that is lost afterwards
		return p.history.CheckConfirmed(p.name, final)
	}
	if r.lossy || r.alone { // as here
		faults = nil
	}
	return append(faults, p.history.Check(p.name, final, r.lossy)...)
}

// readingPage is a way of several to read a page on a primary.
func (r *Run) readingPage(p *page, way int) [][]string {
	switch {
	case r.Config.Standalone: // a replica may answer an older state
		return transaction(p.each("INCRBY", "0"))
	case way == 1:
		return [][]string{p.rows()}
	case way == 2:
		return [][]string{p.all("MGET")}
	case way == 3:
		return transaction([][]string{p.rows(), p.all("MGET")})
	}
	return transaction(p.each("GET"))
}

// Two derived columns of the counter p follow from the additions to pages: pw counts those to pa in a window, and ph adds up those to pa, twice, and to pb.
// So ph is three times pw at most.
//
// Nobody deletes a page without an owner, and all changes of it are additions: where nothing leaves the window, pw is pa. The owner of a page
// sets its counters, which counts nothing, or deletes its posts and adds the next version to them: pw is then one of the versions so far, and never
// more than pa. The posts of a page always have equal values.
var pageDerived = []string{"pw", "ph"}

// glanceDerived reads a page with its derived columns on any node, as it is there.
func (c *client) glanceDerived(p *page) {
	m := Pick(c.dice, c.run.Machines)
	words := append(p.ids("COUNTER.MGET", "p"), "COLUMNS", "pa", "pw", "ph")
	v, err := c.say(m.host, words...)
	if err != nil || failing(leaves(v)) != "" {
		return
	}
	var rows []uint64
	for _, post := range v.Array {
		if post.Null || len(post.Array) == 0 {
			rows = append(rows, 0, 0, 0)
			continue
		}
		for _, one := range leaves(post) {
			n, err := strconv.ParseUint(one.Text(), 10, 64)
			if err != nil && !one.Null {
				c.run.Fault("%s: %v was answered %+v", c.name, words, v)
				return
			}
			rows = append(rows, n)
		}
	}
	if wrong := p.wrongDerived(c.run, rows); wrong != "" {
		c.run.Fault("%s: %v was answered on %s: %s", c.name, words, m.name, wrong)
	}
	c.run.Story.meet("simulation: a page was read with its derived columns")
}

// wrongDerived describes a mistake in the columns pa, pw and ph of the posts of a page.
func (p *page) wrongDerived(r *Run, rows []uint64) string {
	if len(rows) != 3*len(p.mids) {
		return fmt.Sprintf("it has %d values", len(rows))
	}
	a, w, h := rows[0], rows[1], rows[2]
	for i := 3; i < len(rows); i += 3 {
		if rows[i] != a || rows[i+1] != w || rows[i+2] != h {
			return fmt.Sprintf("half a change of %s is in %v", p.name, rows)
		}
	}
	shared := p.owner == ""
	switch {
	case w > a || h > 3*a && oneTime(r):
		return fmt.Sprintf("%s has %d, %d in the window, and a sum of %d", p.name, a, w, h)
	case shared && wholeWindow(r) && w < a:
		return fmt.Sprintf("%s has %d, and %d in a window that nothing leaves", p.name, a, w)
	case shared && lastingSums(r) && h+1 < 3*a-3*a/10:
		return fmt.Sprintf("%s has %d, and a sum of %d that hardly decays", p.name, a, h)
	}
	return ""
}

// lastingSums tells whether hardly anything of a sum decays in the run.
func lastingSums(r *Run) bool { return halfLife(r) == "366d" && rightClocks(r) }

// addAnew are the commands by which the owner of a page deletes its posts, and adds a version to them.
func (p *page) addAnew(n string) [][]string {
	return transaction(append([][]string{p.posts("DEL")}, p.each("INCRBY", n)...))
}

// verifyDerivedPages compares the derived columns of all pages on all nodes.
func verifyDerivedPages(r *Run) {
	if r.Config.Window == "" || r.lossy || len(r.pages) == 0 {
		return
	}
	r.await("all nodes have the derived columns of their pages", func() string {
		return sameInShards(r, func(srv *server.Server) (all []uint64, wrong string) {
			posts, err := derivedPages(srv.Store())
			if err != nil {
				return nil, err.Error()
			}
			for _, p := range r.pages {
				var rows []uint64
				found := 0
				for _, mid := range p.mids {
					row, ok := posts[mid]
					found += toInt(ok)
					rows = append(rows, row[:]...)
				}
				if found > 0 { // the shard has the page
					wrong = max(wrong, p.wrongDerived(r, rows))
				}
				all = append(all, rows...)
			}
			return all, wrong
		})
	})
}

// derivedPages are the columns pa, pw and ph of all posts of p.
func derivedPages(s *counter.Store) (map[uint64][3]uint64, error) {
	def := s.Schema().Counter("p")
	columns := []int16{column(def, "pa"), column(def, "pw"), column(def, "ph")}
	posts := map[uint64][3]uint64{}
	err := s.Find(counter.Query{Counter: def, To: schema.MaxMid, Columns: columns}, func(mid uint64, values []uint64) bool {
		posts[mid] = [3]uint64(values)
		return true
	})
	return posts, err
}
