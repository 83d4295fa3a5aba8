package schema

import (
	"strconv"
	"strings"
)

// parseAlteration reads the attributes behind the name of a column that is there.
func parseAlteration[W ~string | ~[]byte](st *Statement, words []W) error {
	for _, w := range words {
		key, value, assigned := strings.Cut(head(w), "=")
		switch {
		case !strings.EqualFold(key, "top"):
			return fail(ErrAttribute, key, "attribute %s of a column cannot be altered: want top=", quote(key))
		case st.SaysTop:
			return fail(ErrAttribute, key, "attribute %s is given twice", key)
		case !assigned:
			return fail(ErrAttribute, key, "attribute %s needs a value: want %s=VALUE", key, key)
		}
		var err error
		if st.Top, err = parseTop(value); err != nil {
			return err
		}
		st.SaysTop = true
	}
	return nil
}

// parseTop reads the value of the attribute top.
func parseTop(value string) (uint16, error) {
	if strings.EqualFold(value, "off") {
		return 0, nil
	}
	n, err := strconv.ParseUint(value, 10, 16)
	if err != nil || n < 1 || n > MaxTop {
		return 0, fail(ErrAttribute, "top", "top=%s is out of range: want 1 to %d, or off", quote(value), MaxTop)
	}
	return uint16(n), nil
}

// checkTop holds the length of a top list to the rules that need no schema.
func (st *Statement) checkTop() error {
	switch {
	case st.Op == AlterColumn && !st.SaysTop:
		return fail(ErrAttribute, "", "nothing to alter of column %s: want top=", st.Column)
	case !st.SaysTop && st.Top != 0:
		return fail(ErrAttribute, "", "column %s has a value that is not said", st.Column)
	case st.Top > MaxTop:
		return fail(ErrAttribute, "top", "top=%d is out of range: want 1 to %d, or off", st.Top, MaxTop)
	}
	return nil
}

// appendTop appends the length of the top list, if it is said.
func (st *Statement) appendTop(dst []byte) []byte {
	switch {
	case !st.SaysTop:
		return dst
	case st.Top == 0:
		return append(dst, " top=off"...)
	}
	return strconv.AppendUint(append(dst, " top="...), uint64(st.Top), 10)
}

// alterColumn changes the length of a column's top list.
func (d *draft) alterColumn(st Statement) error {
	i, err := d.mustCounter(st.Counter)
	if err != nil {
		return err
	}
	k := d.counters[i].column(st.Column)
	if n := d.counters[i].derived(st.Column); n >= 0 {
		return d.alterDerived(i, n, st)
	}
	if k < 0 {
		return fail(ErrUnknown, st.Column, "counter %s has no column %s", st.Counter, st.Column)
	}
	old := d.counters[i].Columns[k]
	if old.Top == st.Top {
		return nil
	}
	if old.Top == 0 {
		if err := roomForTop(d.counters[i], st.Column); err != nil {
			return err
		}
	}
	next := old
	next.Top = st.Top
	d.shrink(columnStatement(st.Counter, &old))
	if err := d.grow(columnStatement(st.Counter, &next)); err != nil {
		return err
	}
	d.own(i).Columns[k].Top = st.Top
	return nil
}

// roomForTop tells whether one more column of c may have a top list.
func roomForTop(c *Counter, column string) error {
	n := 0
	for i := range c.Width() {
		if c.Col(i).Top > 0 {
			n++
		}
	}
	if n >= MaxTops {
		return fail(ErrLimit, column, "column %s cannot have top=: counter %s has %d columns with it, the most there may be", column, c.Name, MaxTops)
	}
	return nil
}

// topText is the value of the attribute top.
func topText(n uint16) string {
	if n == 0 {
		return "off"
	}
	return strconv.Itoa(int(n))
}
