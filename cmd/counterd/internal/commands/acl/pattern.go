package acl

import (
	"bytes"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/glob"
)

// maxSent is the longest name, in bytes, that a pattern with a glob in the middle matches: a match takes at most as many
// steps as the pattern and the name are long, multiplied. Names of posts are shorter; only a key without a meaning, which
// is its own name, can be longer.
const maxSent = 256

// kind is how a pattern is matched. Most are a beginning or an end, which takes 2 ns; by package glob it takes 40.
type kind uint8

const (
	globbed kind = iota
	exact
	beginning // text*
	end       // *text
	star      // *
)

// pattern is a glob of names. It never changes.
type pattern struct {
	text string // as it was given
	kind kind
	lit  string // of exact, beginning and end

	// counter is the one all of whose posts it matches by their full names: NAME:*. It saves making the name.
	counter string
	open    bool // it ends in a star: it also matches every longer text that begins with a match
	need    command.Need
}

func newPattern(text string, need command.Need) pattern {
	p := pattern{text: text, need: need}
	special := strings.IndexAny(text, `*?[\`)
	p.open = glob.EndsInStar(text)
	switch {
	case text == "*":
		p.kind = star
	case special < 0:
		p.kind, p.lit = exact, text
	case special == len(text)-1 && text[special] == '*':
		p.kind, p.lit = beginning, text[:special]
	case special == 0 && text[0] == '*' && !strings.ContainsAny(text[1:], `*?[\`):
		p.kind, p.lit = end, text[1:]
	}
	if name, colon := strings.CutSuffix(p.lit, ":"); colon && p.kind == beginning && !strings.Contains(name, ":") {
		p.counter = name
	}
	return p
}

// matches tells whether the pattern matches a name.
func (p *pattern) matches(name []byte) bool {
	switch p.kind {
	case star:
		return true
	case exact:
		return string(name) == p.lit
	case beginning:
		return len(name) >= len(p.lit) && string(name[:len(p.lit)]) == p.lit
	case end:
		return len(name) >= len(p.lit) && string(name[len(name)-len(p.lit):]) == p.lit
	}
	return len(name) <= maxSent && glob.Match(p.text, string(name))
}

// covers tells whether the pattern matches every name that begins with prefix. If it ends in a star and matches the
// prefix, the star takes whatever comes behind.
func (p *pattern) covers(prefix []byte) bool { return p.open && p.matches(prefix) }

// maxPattern is the longest pattern of keys or channels.
const maxPattern = glob.MaxPattern

// badName tells whether a name or pattern has bytes that would part it from others in a list of rules.
func badName[T ~string | ~[]byte](b T) bool {
	return bytes.ContainsAny([]byte(b), " \t\n\v\f\r\x00")
}
