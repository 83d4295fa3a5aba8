package feed

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/internal/query"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

const (
	// DefaultCount is how many changes a reply has without COUNT, and MaxCount the most with it.
	DefaultCount = 1000
	MaxCount     = 10_000
	// maxNames is how many counters or columns a command names at most.
	maxNames = 1024
)

// request is the meaning of the arguments.
type request struct {
	from        counter.FeedPosition // unless now or oldest
	now, oldest bool
	count       int
	blocks      bool
	block       time.Duration // 0: without an end
	replicas    int
	filter      counter.FeedFilter
	latest      bool
}

// words are the keywords, each of which ends a list of names before it.
var words = []string{"FROM", "COUNT", "BLOCK", "SAFE", "COUNTERS", "COLUMNS", "MID", "LATEST", "WITH"}

// parser goes over the arguments behind the command's name.
type parser struct {
	args [][]byte
	last string // the keyword read last, for errors
	seen map[string]bool
	req  request
}

// parse reads the arguments. Errors are a *query.SyntaxError, *query.LimitError, *query.UnknownError or *NoOldError, or match
// counter.ErrFeedMalformed.
func parse(sch *schema.Schema, args [][]byte) (request, error) {
	p := parser{args: args, seen: make(map[string]bool), req: request{count: DefaultCount}}
	for len(p.args) > 0 {
		if err := p.clause(); err != nil {
			return request{}, err
		}
	}
	if !p.seen["FROM"] {
		return request{}, &query.SyntaxError{After: p.last, Want: "a clause FROM position|NOW|OLDEST"}
	}
	return p.req, p.check(sch)
}

// keyword is the keyword that a word is; empty: it is none.
func keyword(word []byte) string {
	for _, w := range words {
		if resp.EqualFold(word, w) {
			return w
		}
	}
	return ""
}

// clause reads one keyword and its arguments.
func (p *parser) clause() (err error) {
	word := keyword(p.args[0])
	if word == "" {
		return &query.SyntaxError{After: p.last, Got: resp.Printable(p.args[0], 64), Want: "FROM, COUNT, BLOCK, SAFE, COUNTERS, COLUMNS, MID, LATEST or WITH OLD"}
	}
	if p.seen[word] && word != "MID" {
		return &query.SyntaxError{After: p.last, Got: word, Want: word + " once"}
	}
	p.seen[word], p.last, p.args = true, word, p.args[1:]
	switch word {
	case "FROM":
		return p.from()
	case "COUNT":
		p.req.count, err = p.number(1, MaxCount)
	case "BLOCK":
		var ms int
		ms, err = p.number(0, math.MaxInt32)
		p.req.blocks, p.req.block = true, time.Duration(ms)*time.Millisecond
	case "SAFE":
		p.req.replicas, err = p.number(1, 1000)
	case "COUNTERS":
		p.req.filter.Counters, err = p.names("a counter")
	case "COLUMNS":
		p.req.filter.Columns, err = p.names("a column")
	case "MID":
		err = p.mid()
	case "LATEST":
		p.req.latest = true
	case "WITH":
		err = p.with()
	}
	return err
}

// next takes the next argument.
func (p *parser) next(want string) ([]byte, error) {
	if len(p.args) == 0 {
		return nil, &query.SyntaxError{After: p.last, Want: want}
	}
	word := p.args[0]
	p.args = p.args[1:]
	return word, nil
}

func (p *parser) from() error {
	word, err := p.next("a position, NOW or OLDEST")
	if err != nil {
		return err
	}
	switch {
	case resp.EqualFold(word, "NOW"):
		p.req.now = true
	case resp.EqualFold(word, "OLDEST"):
		p.req.oldest = true
	default:
		p.req.from, err = counter.ParseFeedPosition(string(word))
	}
	return err
}

// with reads the word behind WITH.
func (p *parser) with() error {
	word, err := p.next("OLD")
	if err != nil {
		return err
	}
	if !resp.EqualFold(word, "OLD") {
		return &query.SyntaxError{After: p.last, Got: resp.Printable(word, 64), Want: "OLD"}
	}
	p.req.filter.Old = true
	return nil
}

func (p *parser) number(least, most int) (int, error) {
	word, err := p.next("a number")
	if err != nil {
		return 0, err
	}
	n, ok := resp.Number(word)
	switch {
	case !ok || n < int64(least):
		return 0, &query.SyntaxError{After: p.last, Got: resp.Printable(word, 64), Want: fmt.Sprintf("a number from %d to %d", least, most)}
	case n > int64(most):
		return 0, &query.LimitError{What: p.last, Got: fmt.Sprint(n), Most: most}
	}
	return int(n), nil
}

// names reads a list that begins with a name, whatever it is called, and ends at a keyword.
func (p *parser) names(want string) (list []string, err error) {
	for first := true; first || len(p.args) > 0 && keyword(p.args[0]) == ""; first = false {
		word, err := p.next(want)
		if err != nil {
			return nil, err
		}
		if len(list) == maxNames {
			return nil, &query.LimitError{What: "names behind " + p.last, Got: fmt.Sprintf("more than %d", maxNames), Most: maxNames}
		}
		list = append(list, string(word))
	}
	return list, nil
}

// mid reads one bound.
func (p *parser) mid() error {
	op, err := p.next(">= or <")
	if err != nil {
		return err
	}
	lower, upper := string(op) == ">=", string(op) == "<"
	if !lower && !upper {
		return &query.SyntaxError{After: "MID", Got: resp.Printable(op, 64), Want: ">= or <"}
	}
	if p.seen[string(op)] {
		return &query.SyntaxError{After: "MID", Got: string(op), Want: string(op) + " once"}
	}
	p.seen[string(op)] = true
	p.last += " " + string(op)
	word, err := p.next("a mid")
	if err != nil {
		return err
	}
	mid, ok := schema.ParseMid(word)
	if !ok {
		return &query.SyntaxError{After: p.last, Got: resp.Printable(word, 64), Want: "a mid from 0 to 2^63-1"}
	}
	if lower {
		p.req.filter.From = mid
	} else {
		if mid == 0 {
			return &query.SyntaxError{After: p.last, Got: "0", Want: "a mid from 1 to 2^63-1"}
		}
		p.req.filter.To = mid
	}
	return p.and()
}

// and reads the word AND between two bounds. It may be left out.
func (p *parser) and() error {
	if len(p.args) == 0 || !resp.EqualFold(p.args[0], "AND") {
		return nil
	}
	p.last, p.args = "AND", p.args[1:]
	switch {
	case len(p.args) == 0:
		return &query.SyntaxError{After: p.last, Want: "MID"}
	case keyword(p.args[0]) != "MID":
		return &query.SyntaxError{After: p.last, Got: resp.Printable(p.args[0], 64), Want: "MID"}
	}
	return nil
}

// NoOldError says that WITH OLD was asked of counters whose old values are not logged.
type NoOldError struct {
	Named   bool // it is the counter that COUNTERS names; else no counter has old values
	Counter string
}

// Error names the statement that has old values logged.
func (e *NoOldError) Error() string {
	if e.Named {
		return "the log has no old values of counter '" + e.Counter + "', which WITH OLD asks for: run ALTER COUNTER " + e.Counter + " old=on"
	}
	return "the log has no old values of any counter, which WITH OLD asks for: run ALTER COUNTER " + e.Counter + " old=on"
}

// checkOld tells whether the log has old values of the named counters, or of one at all. A node that has no counters yet, as it is empty and
// waits for its copy, refuses nothing.
func (p *parser) checkOld(sch *schema.Schema) error {
	f := &p.req.filter
	for _, name := range f.Counters {
		if !sch.Counter(name).Old {
			return &NoOldError{Named: true, Counter: name}
		}
	}
	if f.Counters != nil || sch.HasOld() {
		return nil
	}
	if all := sch.Counters(); len(all) > 0 {
		return &NoOldError{Counter: all[0].Name}
	}
	return nil
}

// check tells whether the named counters and columns are there.
func (p *parser) check(sch *schema.Schema) error {
	f := &p.req.filter
	for _, name := range f.Counters {
		if sch.Counter(name) == nil {
			return &query.UnknownError{Counter: resp.Printable([]byte(name), 64)}
		}
	}
	if f.Old {
		if err := p.checkOld(sch); err != nil {
			return err
		}
	}
	for _, name := range f.Columns {
		known, sources := false, []string(nil)
		for _, def := range sch.Counters() {
			if f.Counters == nil || slices.Contains(f.Counters, def.Name) {
				known = known || slices.ContainsFunc(def.Columns, func(c schema.Column) bool { return c.Name == name })
				sources = appendSources(sources, def, name)
			}
		}
		switch {
		case known:
		case sources != nil:
			return &query.SyntaxError{After: "COLUMNS", Got: name,
				Want: "columns that are not derived: " + name + " has no changes of its own, and counts the additions to " + strings.Join(sources, ", ")}
		case len(f.Counters) == 1:
			return &query.UnknownError{Counter: f.Counters[0], Column: resp.Printable([]byte(name), 64)}
		default:
			return &query.SyntaxError{After: "COLUMNS", Got: resp.Printable([]byte(name), 64), Want: "columns that one of the counters has"}
		}
	}
	return nil
}

// appendSources appends the names of the columns whose additions a derived column counts, each once.
func appendSources(names []string, def *schema.Counter, derived string) []string {
	for i := range def.Derived {
		if of := &def.Derived[i]; of.Name == derived {
			for _, source := range of.Sources {
				if name := def.Columns[source.At].Name; !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// asks is the Asks of the command: for the counters that it names, or else for everything. The words are read as parse reads
// them: a column may be called COUNTERS.
func asks(r command.Rights, args [][]byte) (refused int) {
	const allowed = -1
	p := parser{args: args[1:], seen: make(map[string]bool)}
	for len(p.args) > 0 {
		named := p.req.filter.Counters != nil
		left := len(p.args)
		if p.clause() != nil && len(p.args) == left { // no keyword: parse refuses it
			break
		}
		at := len(args) - left + 1
		if named || p.req.filter.Counters == nil {
			continue
		}
		for i := range p.req.filter.Counters {
			if !r.Counter(args[at+i], command.NeedRead) {
				return at + i
			}
		}
	}
	if p.req.filter.Counters == nil && !r.Everything(command.NeedRead) {
		return 0
	}
	return allowed
}
