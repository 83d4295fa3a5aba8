package schema

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// topScript has columns with top lists.
const topScript = `add counter weibo ids=weibo
add column weibo comment hint=8 top=1000
add column weibo repost hint=16 max=32 suffix=cntrn
add column weibo attitude hint=8 suffix= top=1
alter column weibo repost top=10000
`

// TestTop: the attribute top of a column, and values of it that are refused.
func TestTop(t *testing.T) {
	s := parse(t, topScript)
	full := s
	for i := range MaxTops - 3 {
		full = parseOnto(t, fmt.Sprintf("add column weibo c%d hint=1 top=5\n", i), full)
	}
	full = parseOnto(t, "add column weibo plain hint=1\n", full)
	for _, c := range []struct {
		onto *Schema
		line string
		kind error  // nil: it is taken
		say  string // of the error, or the line of the column then
	}{
		{s, "add column weibo comment hint=8", nil, "suffix=comment top=1000"},
		{s, "add column weibo comment hint=8 TOP=1000", nil, "suffix=comment top=1000"},
		{s, "add column weibo comment hint=8 top=9", ErrSchemaMismatch, "top have 1000 want 9: use ALTER COLUMN to change it"},
		{s, "add column weibo comment hint=9 top=off", ErrSchemaMismatch, "top have 1000 want off"},
		{s, "alter column weibo comment top=9", nil, "suffix=comment top=9"},
		{s, "alter column weibo comment top=off", nil, "suffix=comment"},
		{s, "ALTER COLUMN weibo attitude TOP=OFF", nil, "suffix="},
		{s, "alter column weibo comment top=1000", nil, "suffix=comment top=1000"},
		{s, "add column weibo new hint=8 top=off", nil, "suffix=new"},
		{s, "alter column weibo comment", ErrAttribute, "nothing to alter"},
		{s, "alter column weibo comment top=1 top=2", ErrAttribute, "twice"},
		{s, "alter column weibo comment top", ErrAttribute, "needs a value"},
		{s, "alter column weibo comment hint=9", ErrAttribute, "cannot be altered"},
		{s, "alter column weibo comment top=0", ErrAttribute, "out of range"},
		{s, "alter column weibo comment top=10001", ErrAttribute, "out of range"},
		{s, "alter column weibo comment top=65537", ErrAttribute, "out of range"},
		{s, "alter column weibo comment top=-1", ErrAttribute, "out of range"},
		{s, "alter column weibo comment top=", ErrAttribute, "out of range"},
		{s, "alter column weibo", ErrSyntax, "takes 4 words"},
		{s, "alter column weibo nothing top=1", ErrUnknown, "no column nothing"},
		{s, "alter column weibo mid top=1", ErrUnknown, "no column mid"},
		{s, "alter column nobody comment top=1", ErrUnknown, "no counter nobody"},
		{s, "add column weibo mid hint=64 max=64 primarykey top=1", ErrAttribute, "primary key"},
		{full, "alter column weibo plain top=1", ErrLimit, "has 8 columns with it"},
		{full, "add column weibo more hint=1 top=1", ErrLimit, "has 8 columns with it"},
		{full, "alter column weibo c0 top=6", nil, "suffix=c0 top=6"},
	} {
		st, err := ParseStatement(strings.Fields(c.line))
		next := c.onto
		if err == nil {
			if again, err := ParseStatement(strings.Fields(st.String())); err != nil || again.String() != st.String() {
				t.Errorf("%s: prints as %s", c.line, st)
			}
			next, err = c.onto.Apply(st)
		}
		if c.kind != nil {
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.say) {
				t.Errorf("%s: got %v, want %v with %q", c.line, err, c.kind, c.say)
			}
			continue
		}
		if err != nil || !strings.Contains(next.String(), c.say+"\n") {
			t.Errorf("%s: got %v, %s", c.line, err, next)
			continue
		}
		checkSchema(t, next)
		back, err := ParseDurable(next.AppendText(nil))
		if err != nil || back.String() != next.String() {
			t.Errorf("%s: read back as %v, %v", c.line, back, err)
		}
	}
	// The layout of posts does not depend on it.
	if off := parseOnto(t, "alter column weibo comment top=off\n", s); !off.Counter("weibo").Layout.Equal(s.Counter("weibo").Layout) {
		t.Error("top= changes the layout")
	}
}
