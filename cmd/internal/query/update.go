package query

import (
	"math"
	"strconv"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// Update is a COUNTER.UPDATE.
type Update struct {
	counter.Query // Limit bounds the items changed, 0: all; with Returning at most MaxRows
	Changes       []counter.Change
	Returning     counter.Returning
}

// ParseUpdate reads the arguments of COUNTER.UPDATE behind its name. Errors are as ParseFind's. Whether a value fits
// its column is counter.NewUpdate's to say.
func ParseUpdate(sch *schema.Schema, args [][]byte) (Update, error) {
	var u Update
	change := func(word string, kind counter.OpKind) clause {
		return clause{word: word, again: true, read: func(p *parser) error { return u.change(p, word, kind) }}
	}
	p, err := begin(sch, args, []clause{
		midsClause, whereClause,
		change("SET", counter.OpSet), change("INCR", counter.OpAdd), change("DECR", counter.OpAdd), change("RESET", counter.OpReset), change("DEL", counter.OpDelete),
		{word: "LIMIT", read: func(p *parser) error {
			n, err := p.number(1, math.MaxInt32)
			p.q.Limit = int(n)
			return err
		}},
		{word: "RETURNING", read: u.returning},
	})
	if err != nil {
		return Update{}, err
	}
	if err := p.rest(); err != nil {
		return Update{}, err
	}
	u.Query = p.q
	switch {
	case len(u.Changes) == 0:
		return Update{}, p.unexpected("SET, INCR, DECR, RESET or DEL")
	case u.Returning == counter.ReturnNothing:
	case u.Returning == counter.ReturnNew && u.Changes[0].Kind == counter.OpDelete:
		return Update{}, &SyntaxError{Got: "RETURNING NEW", Want: "RETURNING OLD: DEL leaves nothing"}
	case u.Limit > MaxRows:
		return Update{}, &LimitError{"LIMIT with RETURNING", strconv.Itoa(u.Limit), MaxRows}
	}
	return u, nil
}

// change reads the words after one of the words of changes.
func (u *Update) change(p *parser, word string, kind counter.OpKind) (err error) {
	ch := counter.Change{Kind: kind}
	if kind != counter.OpDelete {
		if ch.Column, err = p.column(); err != nil {
			return err
		}
	}
	column := p.last
	switch word {
	case "SET":
		ch.Arg, err = p.number(0, schema.MaxValue)
	case "INCR":
		ch.Arg, err = p.number(0, schema.MaxValue)
	case "DECR":
		ch.Arg, err = p.number(0, schema.MaxValue)
		ch.Arg = -ch.Arg
	}
	if err != nil {
		return err
	}
	for _, before := range u.Changes {
		switch {
		case before.Kind == counter.OpDelete || kind == counter.OpDelete:
			return &SyntaxError{Got: word, Want: "DEL alone: nothing else can be done to an item that goes"}
		case before.Column == ch.Column:
			return &SyntaxError{Got: word + " " + column, Want: "each column once"}
		}
	}
	u.Changes = append(u.Changes, ch) // a column each: at most schema.MaxColumns
	return nil
}

// returning reads OLD or NEW.
func (u *Update) returning(p *parser) error {
	switch {
	case p.taken("OLD"):
		u.Returning = counter.ReturnOld
	case p.taken("NEW"):
		u.Returning = counter.ReturnNew
	default:
		return p.unexpected("OLD or NEW")
	}
	return nil
}
