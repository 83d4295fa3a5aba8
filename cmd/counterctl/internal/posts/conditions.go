package posts

import (
	"slices"
	"strconv"
	"strings"

	"github.com/counterd/counterd/cmd/internal/cli"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// comparisons are the operators of conditions.
var comparisons = map[string]counter.Compare{
	"=": counter.Equal, "!=": counter.NotEqual, "<": counter.Less, "<=": counter.LessEqual, ">": counter.Greater, ">=": counter.GreaterEqual,
}

// Conditions reads words as the commands by condition have them, for posts that no server is asked for:
//
//	[MID op mid {AND MID op mid} | MID IN mid ...] [WHERE column op n {AND column op n}]
func Conditions(c *schema.Counter, words []string) (counter.Query, error) {
	q := counter.Query{Counter: c, To: schema.MaxMid}
	next := func(want string) (string, error) {
		if len(words) == 0 {
			return "", cli.Misuse("the conditions end where %s should follow", want)
		}
		word := words[0]
		words = words[1:]
		return word, nil
	}
	compared := func() (op counter.Compare, v uint64, err error) {
		word, err := next("one of = != < <= > >=")
		if err != nil {
			return 0, 0, err
		}
		op, ok := comparisons[word]
		if !ok {
			return 0, 0, cli.Misuse("%q: want one of = != < <= > >= (quoted for the shell)", word)
		}
		if word, err = next("a number"); err != nil {
			return 0, 0, err
		}
		v, err = strconv.ParseUint(word, 10, 63)
		if err != nil {
			return 0, 0, cli.Misuse("%q: want a number from 0 to %d", word, uint64(schema.MaxMid))
		}
		return op, v, nil
	}
	is := func(keyword string) bool {
		if len(words) == 0 || !strings.EqualFold(words[0], keyword) {
			return false
		}
		words = words[1:]
		return true
	}
	for len(words) > 0 {
		switch {
		case is("MID"):
			if is("IN") {
				for len(words) > 0 && !strings.EqualFold(words[0], "WHERE") {
					mid, ok := schema.ParseMid([]byte(words[0]))
					if !ok {
						return q, cli.Misuse("MID IN: %q is no mid", words[0])
					}
					q.Mids, words = append(q.Mids, mid), words[1:]
				}
				if len(q.Mids) == 0 {
					return q, cli.Misuse("MID IN: want mids")
				}
				continue
			}
			for more := true; more; more = is("AND") && is("MID") {
				op, v, err := compared()
				if err != nil {
					return q, err
				}
				boundMids(&q, op, v)
			}
		case is("WHERE"):
			for more := true; more; more = is("AND") {
				name, err := next("a column")
				if err != nil {
					return q, err
				}
				col, ok := c.Field([]byte(name))
				if !ok {
					return q, cli.Misuse("no column %q in counter %s", name, c.Name)
				}
				op, v, err := compared()
				if err != nil {
					return q, err
				}
				q.Where = append(q.Where, counter.Condition{Column: int16(col), Op: op, Value: v})
			}
		default:
			return q, cli.Misuse("%q: want MID ... or WHERE ...", words[0])
		}
	}
	return q, nil
}

// boundMids adds a condition on mids.
func boundMids(q *counter.Query, op counter.Compare, v uint64) {
	switch op {
	case counter.Equal:
		q.From, q.To = max(q.From, v), min(q.To, v)
	case counter.NotEqual:
		q.NotMids = append(q.NotMids, v)
	case counter.Less:
		if v == 0 {
			q.From, q.To = 1, 0 // nothing
			return
		}
		q.To = min(q.To, v-1)
	case counter.LessEqual:
		q.To = min(q.To, v)
	case counter.Greater:
		q.From = max(q.From, v+1)
	case counter.GreaterEqual:
		q.From = max(q.From, v)
	}
}

// Columns returns the places of columns that are named, or of all.
func Columns(c *schema.Counter, names []string) (columns []int, err error) {
	if names == nil {
		for i := range c.Columns {
			columns = append(columns, i)
		}
		return columns, nil
	}
	for _, name := range names {
		col, ok := c.Field([]byte(name))
		if !ok {
			return nil, cli.Misuse("no column %q in counter %s", name, c.Name)
		}
		if slices.Contains(columns, col) {
			return nil, cli.Misuse("column %q is named twice", name)
		}
		columns = append(columns, col)
	}
	return columns, nil
}
