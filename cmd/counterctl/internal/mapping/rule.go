package mapping

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/counterd/counterd/schema"
)

// rule is one line of --map.
type rule struct {
	text   string
	shape  Shape
	key    *pattern
	field  *pattern // of a hash's field or a sorted set's member; nil for strings
	values decoder
}

// RuleError is a rule that cannot be used.
type RuleError struct {
	Rule string
	Err  error
}

func (e *RuleError) Error() string { return fmt.Sprintf("rule %q: %v", e.Rule, e.Err) }

func (e *RuleError) Unwrap() error { return e.Err }

// MissingError is a schema without some of the counters and columns that rules name.
type MissingError struct {
	Names      []string // "weibo", "weibo.likes"
	Statements []string // that add them, in order
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("the server has no %s; add them:\n  %s", strings.Join(e.Names, ", "), strings.Join(e.Statements, "\n  "))
}

// compiler makes rules of texts.
type compiler struct {
	schema  *schema.Schema
	rules   *Rules
	missing MissingError
}

// ruleMax is the length of the longest rule: two patterns and 64 columns.
const ruleMax = 8 << 10

// rule reads one rule, and all that it stands for.
func (c *compiler) rule(text string) ([]*rule, error) {
	eq := strings.LastIndexByte(text, '=')
	if eq < 0 || len(text) > ruleMax {
		return nil, errors.New("want KEY=counter.column, such as 'post:{mid}:likes=weibo.attitude'")
	}
	left, target := text[:eq], text[eq+1:]
	r := &rule{text: text}
	keyText, fieldText := left, ""
	if i := cutAt(left); i >= 0 {
		keyText, fieldText, r.shape = left[:i], left[i+1:], Hash
		if left[i] == '@' {
			r.shape = SortedSet
		}
		if fieldText == "" {
			return nil, fmt.Errorf("nothing stands behind the %c", left[i])
		}
	}
	var err error
	if r.key, err = parsePattern(keyText); err != nil {
		return nil, err
	}
	if r.shape == Hash && fieldText == "*" {
		return c.named(r, target)
	}
	if r.shape != String {
		if r.field, err = parsePattern(fieldText); err != nil {
			return nil, err
		}
	}
	if err := r.checkID(); err != nil {
		return nil, err
	}
	if r.values, err = c.target(target); err != nil {
		return nil, err
	}
	if s, ok := r.values.(single); ok && r.shape == SortedSet {
		r.values = score(s)
	} else if r.shape == SortedSet {
		return nil, errors.New("a score is one number: want =counter.column")
	}
	return []*rule{r}, nil
}

// cutAt finds the # or @ between the patterns, or answers -1.
func cutAt(left string) int {
	for i := 0; i < len(left); i++ {
		switch left[i] {
		case '\\':
			i++
		case '#', '@':
			return i
		}
	}
	return -1
}

// checkID sees that key and field together name one post.
func (r *rule) checkID() error {
	ids := [2]part{r.key.id, none}
	if r.field != nil {
		ids[1] = r.field.id
	}
	switch {
	case ids == [2]part{none, none}:
		return errors.New("no {mid}: which post is it?")
	case ids == [2]part{whole, none} || ids == [2]part{none, whole}:
	case ids == [2]part{quotient, remainder} && r.key.divisor == r.field.divisor:
	case ids == [2]part{quotient, whole}: // the key says it once more
	case ids == [2]part{whole, whole}:
		return errors.New("a second {mid}: key and field each name a post")
	default:
		return errors.New("want {mid/N} in the key and {mid%N} of the same N in the field")
	}
	return nil
}

// named makes rules for the fields that are called as the counter's columns.
func (c *compiler) named(r *rule, target string) ([]*rule, error) {
	def := c.schema.Counter(target)
	if def == nil && isName(target) {
		c.miss(target, "")
		return nil, nil
	} else if def == nil {
		return nil, fmt.Errorf("%q: want a counter's name behind #*=", target)
	}
	if r.key.id != whole {
		return nil, errors.New("want {mid} in the key before #*")
	}
	var list []*rule
	for i := range def.Columns {
		field, err := parsePattern(def.Columns[i].Name)
		if err != nil {
			return nil, err
		}
		list = append(list, &rule{text: r.text, shape: Hash, key: r.key, field: field, values: single{c.rules.column(def, i)}})
	}
	return list, nil
}

// target reads the text after the =.
func (c *compiler) target(text string) (decoder, error) {
	open := strings.IndexAny(text, ".([{")
	if open < 0 {
		return nil, fmt.Errorf("%q: want counter.column", text)
	}
	name, rest := text[:open], text[open+1:]
	if !isName(name) {
		return nil, fmt.Errorf("%q is not a counter's name", name)
	}
	if text[open] == '.' {
		column, err := c.column(name, rest)
		return single{column}, err
	}
	closing := map[byte]string{'(': ")", '[': "]", '{': "}"}[text[open]]
	inside, ok := strings.CutSuffix(rest, closing)
	if !ok {
		return nil, fmt.Errorf("%q: want a %s at its end", text, closing)
	}
	switch text[open] {
	case '(':
		return c.text(name, inside)
	case '[':
		return c.bits(name, inside)
	}
	return c.object(name, inside)
}

// text reads (a,b,c): names with the separator between them.
func (c *compiler) text(counter, inside string) (decoder, error) {
	x := &text{}
	for rest := inside; ; {
		n := 0
		for n < len(rest) && isNameByte(rest[n]) {
			n++
		}
		column, err := c.packed(counter, rest[:n])
		if err != nil {
			return nil, err
		}
		x.columns = append(x.columns, column)
		if rest = rest[n:]; rest == "" {
			break
		}
		if x.separator == nil {
			n = 0
			for n < len(rest) && !isNameByte(rest[n]) {
				n++
			}
			x.separator = []byte(rest[:n])
		}
		var ok bool
		if rest, ok = strings.CutPrefix(rest, string(x.separator)); !ok {
			return nil, fmt.Errorf("(%s): want %q between all columns", inside, x.separator)
		}
	}
	if len(x.columns) < 2 {
		return nil, fmt.Errorf("(%s): want two columns or more, and between them what stands between the numbers", inside)
	}
	if x.separator = bytes.Trim(x.separator, " "); len(x.separator) == 0 {
		x.separator = []byte(" ")
	}
	return x, distinct(x.columns)
}

// bits reads [a:u32,b:u16le].
func (c *compiler) bits(counter, inside string) (decoder, error) {
	p, bits := &packedBits{}, 0
	inside, p.any = strings.CutSuffix(inside, ",...")
	for word := range strings.SplitSeq(inside, ",") {
		name, width, _ := strings.Cut(word, ":")
		column, err := c.packed(counter, name)
		if err != nil {
			return nil, err
		}
		f := binaryField{column: column}
		digits, unsigned := strings.CutPrefix(width, "u")
		digits, f.little = strings.CutSuffix(digits, "le")
		f.bits, err = strconv.Atoi(digits)
		whole := f.bits%8 == 0 && bits%8 == 0
		if err != nil || !unsigned || f.bits < 1 || f.bits > 64 || f.little && !whole {
			return nil, fmt.Errorf("%q: want column:u32 or the like, u1 to u64, with le behind it for whole bytes in little endian", word)
		}
		p.fields = append(p.fields, f)
		bits += f.bits
	}
	p.size = (bits + 7) / 8
	columns := make([]int, len(p.fields))
	for i, f := range p.fields {
		columns[i] = f.column
	}
	return p, distinct(columns)
}

// object reads {key:a,"key":b}.
func (c *compiler) object(counter, inside string) (decoder, error) {
	o := &object{}
	for word := range strings.SplitSeq(inside, ",") {
		i := strings.LastIndexByte(word, ':')
		if i < 1 {
			return nil, fmt.Errorf("%q: want key:column", word)
		}
		key := word[:i]
		if key[0] == '"' {
			var err error
			if key, err = strconv.Unquote(key); err != nil {
				return nil, fmt.Errorf("%q: want key:column, the key in \" or not", word)
			}
		}
		column, err := c.column(counter, word[i+1:])
		if err != nil {
			return nil, err
		}
		o.names, o.columns = append(o.names, key), append(o.columns, column)
	}
	return o, distinct(o.columns)
}

// distinct sees that no column is written twice by one value.
func distinct(columns []int) error {
	seen := map[int]bool{}
	for _, c := range columns {
		if c >= 0 && seen[c] {
			return errors.New("a column stands in it twice")
		}
		seen[c] = true
	}
	if len(seen) == 1 && seen[skipped] {
		return errors.New("no column stands in it")
	}
	return nil
}

// packed finds a column of a packed value; "_" is none.
func (c *compiler) packed(counter, name string) (int, error) {
	if name == "_" {
		return skipped, nil
	}
	return c.column(counter, name)
}

// column finds a column by its name or suffix. A missing column is noted, and has no valid index.
func (c *compiler) column(counter, name string) (int, error) {
	if !isName(counter) || !isName(name) {
		return 0, fmt.Errorf("%q is not a column's name", name)
	}
	def := c.schema.Counter(counter)
	if def == nil {
		c.miss(counter, name)
		return c.unknown(), nil
	}
	i, ok := def.Field([]byte(name))
	if !ok && name == def.Key {
		return 0, fmt.Errorf("%s is the id of %s, and no number of it", name, counter)
	} else if !ok {
		c.miss(counter, name)
		return c.unknown(), nil
	} else if def.IsDerived(i) {
		return 0, fmt.Errorf("column %s of %s is derived: additions to another column make it, and nothing can be imported into it", name, counter)
	}
	return c.rules.column(def, i), nil
}

// unknown is a different column each time, below skipped, so that missing ones do not count as written twice.
func (c *compiler) unknown() int { return skipped - 1 - len(c.missing.Names) }

// miss notes a missing column, once.
func (c *compiler) miss(counter, column string) {
	add := func(name, statement string) {
		for _, known := range c.missing.Names {
			if known == name {
				return
			}
		}
		c.missing.Names = append(c.missing.Names, name)
		c.missing.Statements = append(c.missing.Statements, statement)
	}
	if c.schema.Counter(counter) == nil {
		add(counter, "ADD COUNTER "+counter)
	}
	if column != "" {
		add(counter+"."+column, "ADD COLUMN "+counter+" "+column+" hint=8 max=32"+c.suffix(counter, column))
	}
}

// suffix keeps a new column's suffix apart from those of other counters, as suffixes are unique.
func (c *compiler) suffix(counter, column string) string {
	taken := false
	for _, def := range c.schema.Counters() {
		for i := range def.Columns {
			taken = taken || def.Columns[i].Suffix == column
		}
	}
	for _, name := range c.missing.Names {
		other, col, _ := strings.Cut(name, ".")
		taken = taken || other != counter && col == column
	}
	if !taken {
		return ""
	}
	return " suffix=" + counter + "_" + column
}

func isNameByte(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'z'
}

func isName(s string) bool {
	for i := range len(s) {
		if !isNameByte(s[i]) {
			return false
		}
	}
	return s != "" && len(s) <= schema.MaxName && (s[0] < '0' || s[0] > '9')
}
