package query

import (
	"fmt"
	"math"
	"strings"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/argument"
	"github.com/counterd/counterd/schema"
)

// parser goes over the words of one command.
type parser struct {
	def  *schema.Counter
	args [][]byte // the rest
	last string   // the keyword or word read last, for errors
	q    counter.Query

	clauses []clause
	seen    uint // bits of clauses that stood
}

// clause is one kind of words that may follow the head of a command.
type clause struct {
	word  string
	again bool // it may stand more than once
	read  func(*parser) error
}

// begin reads the counter's name. args are the arguments behind the command's name.
func begin(sch *schema.Schema, args [][]byte, clauses []clause) (*parser, error) {
	p := &parser{args: args, clauses: clauses}
	name, err := p.next("a counter")
	if err != nil {
		return nil, err
	}
	if p.def = sch.CounterNamed(name); p.def == nil {
		return nil, &UnknownError{Counter: shown(name)}
	}
	p.q = counter.Query{Counter: p.def, To: schema.MaxMid}
	return p, nil
}

// rest reads clauses up to the end.
func (p *parser) rest() error {
	for len(p.args) > 0 {
		i := p.clause(p.args[0])
		if i < 0 {
			return p.unexpected(p.names())
		}
		c := &p.clauses[i]
		if p.seen&(1<<i) != 0 && !c.again {
			return &SyntaxError{After: p.last, Got: c.word, Want: c.word + " once" + joinHint(c.word)}
		}
		p.seen |= 1 << i
		p.last, p.args = c.word, p.args[1:]
		if err := c.read(p); err != nil {
			return err
		}
	}
	return nil
}

// joinHint helps who repeats a keyword where AND is meant.
func joinHint(word string) string {
	if word == "WHERE" || word == "MID" {
		return ": further conditions come behind AND"
	}
	return ""
}

// clause is the number of the clause that a word begins, -1: none.
func (p *parser) clause(word []byte) int {
	for i := range p.clauses {
		if argument.EqualFold(word, p.clauses[i].word) {
			return i
		}
	}
	return -1
}

// names lists the clauses that may still come.
func (p *parser) names() string {
	var words []string
	for i, c := range p.clauses {
		if c.again || p.seen&(1<<i) == 0 {
			words = append(words, c.word)
		}
	}
	return strings.Join(words, ", ") + " or the end"
}

// next takes a word.
func (p *parser) next(want string) ([]byte, error) {
	if len(p.args) == 0 {
		return nil, &SyntaxError{After: p.last, Want: want}
	}
	word := p.args[0]
	p.last, p.args = "'"+shown(word)+"'", p.args[1:]
	return word, nil
}

// unexpected is the error for the word that comes next.
func (p *parser) unexpected(want string) error {
	e := &SyntaxError{After: p.last, Want: want}
	if len(p.args) > 0 {
		e.Got = shown(p.args[0])
	}
	return e
}

// taken tells whether a keyword comes next, and takes it then.
func (p *parser) taken(word string) bool {
	if len(p.args) == 0 || !argument.EqualFold(p.args[0], word) {
		return false
	}
	p.last, p.args = word, p.args[1:]
	return true
}

// column reads the name or suffix of a column.
func (p *parser) column() (int16, error) {
	name, err := p.next("a column")
	if err != nil {
		return 0, err
	}
	col, ok := p.def.Field(name)
	if !ok {
		return 0, noColumn(p.def, name)
	}
	return int16(col), nil
}

// number reads one from least to most.
func (p *parser) number(least, most uint64) (uint64, error) {
	want := fmt.Sprintf("a number %d..%d", least, most)
	if len(p.args) == 0 {
		return 0, p.unexpected(want)
	}
	n, ok := argument.Number(p.args[0])
	if !ok || n < 0 || uint64(n) < least || uint64(n) > most {
		return 0, p.unexpected(want)
	}
	p.args = p.args[1:]
	return uint64(n), nil
}

// count reads a number that a limit of the package bounds, at least 1.
func (p *parser) count(what string, most int) (int, error) {
	n, err := p.number(1, math.MaxInt64)
	if err != nil {
		return 0, err
	}
	if n > uint64(most) {
		return 0, &LimitError{what, fmt.Sprint(n), most}
	}
	return int(n), nil
}

var compares = []struct {
	text string
	op   counter.Compare
}{
	{"=", counter.Equal}, {"!=", counter.NotEqual}, {"<", counter.Less}, {"<=", counter.LessEqual}, {">", counter.Greater}, {">=", counter.GreaterEqual},
}

// compare reads an op.
func (p *parser) compare(also string) (counter.Compare, error) {
	if len(p.args) > 0 {
		for _, c := range compares {
			if string(p.args[0]) == c.text {
				p.args = p.args[1:]
				return c.op, nil
			}
		}
	}
	return 0, p.unexpected("= != < <= > >=" + also)
}

// mid reads one.
func (p *parser) mid() (uint64, error) {
	if len(p.args) > 0 {
		if mid, ok := schema.ParseMid(p.args[0]); ok {
			p.args = p.args[1:]
			return mid, nil
		}
	}
	return 0, p.unexpected(fmt.Sprintf("a mid 0..%d", uint64(schema.MaxMid)))
}

// mids reads the words after MID.
func (p *parser) mids() error {
	if p.taken("IN") {
		return p.in()
	}
	for n, also := 1, " or IN"; ; n, also = n+1, "" {
		if n > MaxConditions {
			return &LimitError{"conditions on mids", fmt.Sprintf("more than %d", MaxConditions), MaxConditions}
		}
		op, err := p.compare(also)
		if err != nil {
			return err
		}
		mid, err := p.mid()
		if err != nil {
			return err
		}
		p.narrow(op, mid)
		if !p.taken("AND") {
			return nil
		}
		if !p.taken("MID") {
			return p.unexpected("MID: conditions on columns come behind WHERE")
		}
	}
}

// narrow adds a condition on mids to the query.
func (p *parser) narrow(op counter.Compare, mid uint64) {
	q := &p.q
	switch op {
	case counter.Equal:
		q.From, q.To = max(q.From, mid), min(q.To, mid)
	case counter.NotEqual:
		q.NotMids = append(q.NotMids, mid)
	case counter.Less:
		if mid == 0 {
			q.From, q.To = 1, 0 // nothing
		} else {
			q.To = min(q.To, mid-1)
		}
	case counter.LessEqual:
		q.To = min(q.To, mid)
	case counter.Greater:
		q.From = max(q.From, mid+1)
	case counter.GreaterEqual:
		q.From = max(q.From, mid)
	}
	if q.From > q.To { // stays so, whatever else there is
		q.From, q.To = 1, 0
	}
}

// in reads the list of MID IN: mids up to the first word that is none.
func (p *parser) in() error {
	n := 0
	for n < len(p.args) && len(p.args[n]) > 0 && (p.args[n][0] >= '0' && p.args[n][0] <= '9' || p.args[n][0] == '{') {
		n++
	}
	if n == 0 {
		_, err := p.mid()
		return err
	}
	if n > MaxMids {
		return &LimitError{"mids behind IN", fmt.Sprint(n), MaxMids}
	}
	p.q.Mids = make([]uint64, n)
	for i := range p.q.Mids {
		mid, err := p.mid()
		if err != nil {
			return err
		}
		p.q.Mids[i] = mid
	}
	return nil
}

// where reads the words after WHERE.
func (p *parser) where() error {
	for {
		if len(p.q.Where) == MaxConditions {
			return &LimitError{"conditions on columns", fmt.Sprintf("more than %d", MaxConditions), MaxConditions}
		}
		if len(p.args) > 0 && argument.EqualFold(p.args[0], "MID") {
			if _, ok := p.def.Field(p.args[0]); !ok {
				return p.unexpected("a column: conditions on mids are a clause of their own, MID > 5 AND MID < 9")
			}
		}
		col, err := p.column()
		if err != nil {
			return err
		}
		op, err := p.compare("")
		if err != nil {
			return err
		}
		n, err := p.number(0, schema.MaxValue)
		if err != nil {
			return err
		}
		p.q.Where = append(p.q.Where, counter.Condition{Column: col, Op: op, Value: n})
		if !p.taken("AND") {
			return nil
		}
	}
}

var (
	midsClause  = clause{word: "MID", read: (*parser).mids}
	whereClause = clause{word: "WHERE", read: (*parser).where}
)
