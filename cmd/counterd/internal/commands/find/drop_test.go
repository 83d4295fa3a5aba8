// Scenario: drop, a search ends when a column that it names is dropped.

package find

import (
	"fmt"
	"strings"
	"testing"

	"github.com/counterd/counterd/counter"
)

// dropping is a connection behind whose back a script alters the schema.
type dropping struct {
	fakeConn
	t      *testing.T
	script string // empty: it has run
	after  int    // so many steps
	partly bool   // and not before an item was changed
}

func (c *dropping) Steps(changes bool, step func(b *counter.Batch) (bool, error)) error {
	for done := false; ; c.after-- {
		if c.script != "" && c.after <= 0 && (!c.partly || c.touched > 0) {
			if err := c.store.AlterScript(c.script); err != nil {
				c.t.Fatal(err)
			}
			c.script = ""
		}
		c.steps = 1
		if err := c.fakeConn.Steps(changes, func(b *counter.Batch) (bool, error) {
			var err error
			done, err = step(b)
			return true, err
		}); err != nil || done {
			return err
		}
	}
}

func (c *dropping) Alone(change func(b *counter.Batch) error) error {
	b := c.store.NewBatch()
	if err := b.BeginExclusive(); err != nil {
		return err
	}
	defer b.End()
	return change(b)
}

// TestDropped: a command by condition goes on when a column that it does not name comes or goes between two of its steps, and
// ends when a column that it names goes; an UPDATE says then how many posts it changed.
func TestDropped(t *testing.T) {
	t.Parallel()
	const posts = 6_000
	rowsOf := func(n int, row func(mid int) string) string {
		var b strings.Builder
		fmt.Fprintf(&b, "*%d|", n)
		for mid := range n {
			b.WriteString(row(mid))
		}
		return strings.TrimSuffix(b.String(), "|")
	}
	two := func(mid int) string { return fmt.Sprintf("*2|:%d|:1|", mid) }
	gone := func(column string) string {
		return "ERR counter: no such counter or column: column " + column + " of counter weibo was dropped meanwhile"
	}
	run := map[string]func(Conn, [][]byte){"FIND": runFind, "TOP": runTop, "COUNT": func(c Conn, args [][]byte) { runAggregate(c, counter.Count, args) },
		"SUM": func(c Conn, args [][]byte) { runAggregate(c, counter.Sum, args) }, "UPDATE": runUpdate}
	for _, w := range []struct{ command, drop, want string }{
		{"COUNT weibo WHERE comment = 1", "repost", ":6000"},
		{"COUNT weibo WHERE comment = 1", "comment", "-" + gone("comment")},
		{"SUM weibo comment", "repost", ":6000"},
		{"SUM weibo comment", "comment", "-" + gone("comment")},
		{"TOP weibo comment 2", "repost", "*2|*2|:5999|:1|*2|:5998|:1"},
		{"FIND weibo WHERE comment = 1 COLUMNS comment", "repost", rowsOf(posts, two)},
		{"FIND weibo WHERE comment = 1 COLUMNS comment repost", "repost", "-" + gone("repost")},
		{"FIND weibo WHERE comment = 1", "repost", rowsOf(posts, two)},
		{"FIND weibo WHERE comment = 1 AND repost = 0", "repost", "-ERR no column 'repost' in counter 'weibo' (see SCHEMA)"},
		{"UPDATE weibo WHERE comment = 1 INCR comment 1", "repost", ":6000"},
		{"UPDATE weibo WHERE comment = 1 DEL", "repost", ":6000"},
		{"UPDATE weibo WHERE comment = 1 SET comment 1 LIMIT 5000 RETURNING OLD", "repost", rowsOf(5_000, two)},
		{"UPDATE weibo WHERE comment = 1 SET comment 1 LIMIT 5000 RETURNING NEW", "repost", rowsOf(5_000, two)},
		{"UPDATE weibo MID < 5000 WHERE comment = 1 SET comment 1 RETURNING NEW", "repost", rowsOf(5_000, two)},
		{"UPDATE weibo MID < 5000 WHERE comment = 1 DEL RETURNING OLD", "repost", rowsOf(5_000, two)},
		{"UPDATE weibo WHERE comment = 1 INCR repost 1", "repost", "-UNCERTAIN N posts were changed, then: " + gone("repost")},
		{"UPDATE weibo WHERE repost = 0 SET comment 2", "repost", "-UNCERTAIN N posts were changed, then: " + gone("repost")},
	} {
		name, rest, _ := strings.Cut(w.command, " ")
		for n := range 4 {
			script := []string{"drop column weibo " + w.drop, "add column weibo more hint=8 max=8\ndrop column weibo more"}[n%2]
			after := n / 2
			if after > 0 && name != "FIND" && name != "UPDATE" { // which take one step only, where nobody else wants the processor
				continue
			}
			s := fill(t, posts)
			c := &dropping{fakeConn: fakeConn{store: s}, t: t, script: script, after: after, partly: after > 0 && strings.Contains(w.want, "UNCERTAIN")}
			words := [][]byte{[]byte("COUNTER." + name)}
			for word := range strings.FieldsSeq(rest) {
				words = append(words, []byte(word))
			}
			run[name](c, words)
			if c.script != "" {
				t.Fatalf("%s: it ended before the schema was altered", w.command)
			}
			got := strings.ReplaceAll(strings.TrimSuffix(string(c.call.Out.From(0)), "\r\n"), "\r\n", "|")
			want := strings.ReplaceAll(w.want, " N ", fmt.Sprintf(" %d ", c.touched))
			if after == 0 {
				want = strings.Replace(want, fmt.Sprintf("UNCERTAIN %d posts were changed, then: ", c.touched), "", 1)
			}
			if !strings.HasPrefix(script, "drop") { // nothing was dropped that there was before
				if got[0] == '-' {
					t.Errorf("%s, with a column that came and went: got %.200q", w.command, got)
				}
				continue
			}
			if got != want {
				t.Errorf("%s, %s after %d steps: got %.300q, want %.300q", w.command, script, after, got, want)
			}
		}
	}
}
