package query

import (
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

var conditionClauses = []clause{midsClause, whereClause}

// ParseConditions reads the conditions of a query on posts of a counter, { mids | where }, which may be none: for tools that
// read posts without a server.
func ParseConditions(def *schema.Counter, words []string) (counter.Query, error) {
	p := &parser{def: def, clauses: conditionClauses, q: counter.Query{Counter: def, To: schema.MaxMid}}
	for _, w := range words {
		p.args = append(p.args, []byte(w))
	}
	err := p.rest()
	return p.q, err
}
