package items

import (
	"strconv"

	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// CounterMSet: COUNTER.MSET counter mid n ... [mid n ...] [COLUMNS column [column ...]] gives all columns of many posts
// their values, in the order of the schema, or those that are named, in that order: the import of counts from elsewhere.
// It is one change, and answers how many posts it was told.
func CounterMSet(c *Call, args [][]byte) {
	def := c.Batch.Schema().CounterNamed(args[1])
	if def == nil {
		c.oweError(ErrNoCounter(args[1]))
		return
	}
	rows, columns, text := msetColumns(def, args[2:])
	width := 1 + len(columns)
	if text == "" && (len(rows) == 0 || len(rows)%width != 0) {
		text = "ERR COUNTER.MSET: got " + strconv.Itoa(len(rows)) + " arguments for posts, want a mid and " + strconv.Itoa(len(columns)) + " numbers for each"
	}
	n := len(rows) / width
	if text == "" && n > counter.MaxRows(len(columns)) {
		text = "ERR COUNTER.MSET: got " + strconv.Itoa(n) + " posts, want at most " + strconv.Itoa(counter.MaxRows(len(columns))) + " in a command"
	}
	if text != "" {
		c.oweError(text)
		return
	}
	first, shape := c.Batch.Len(), c.Batch.Shape(columns, n)
	for ; len(rows) > 0; rows = rows[width:] {
		c.Breathe(len(rows) / width)
		mid, ok := schema.ParseMid(rows[0])
		if !ok {
			text = ErrNoMid(rows[0])
			break
		}
		values := c.Batch.SetRow(def, mid, shape)
		for i := range values {
			v, ok := value(rows[1+i])
			if col := def.Col(int(columns[i])); !ok || v > col.Limit() {
				text = ErrNotInteger
			}
			values[i] = v
		}
		if text != "" {
			break
		}
	}
	if text != "" {
		c.Batch.Truncate(first)
		c.oweError(text)
		return
	}
	c.Batch.ChangeSet(first)
	c.owe(replySetRows, first, n)
}

// msetColumns takes the columns off the end of COUNTER.MSET's arguments, if they are named there; text is the error.
func msetColumns(def *schema.Counter, args [][]byte) (rows [][]byte, columns []int16, text string) {
	columns = make([]int16, 0, len(def.Columns))
	for i := len(args) - 1; i >= max(0, len(args)-1-schema.MaxColumns); i-- {
		if !resp.EqualFold(args[i], "COLUMNS") {
			continue
		}
		for _, name := range args[i+1:] {
			column, ok := def.Field(name)
			if !ok {
				return nil, nil, errNoField(def, name)
			}
			for _, c := range columns {
				if int(c) == column {
					return nil, nil, "ERR COUNTER.MSET: column '" + def.Col(column).Name + "' is named twice"
				}
			}
			columns = append(columns, int16(column))
		}
		if len(columns) == 0 {
			return nil, nil, ErrSyntax
		}
		return args[:i], columns, ""
	}
	for i := range def.Columns {
		columns = append(columns, int16(i))
	}
	return args, columns, ""
}

// EachRow calls f with the mids of a COUNTER.MSET, as far as they are mids. It is false where the command is to be refused
// for another reason.
func EachRow(sch *schema.Schema, args [][]byte, f func(mid uint64)) bool {
	def := sch.CounterNamed(args[1])
	if def == nil {
		return false
	}
	rows, columns, text := msetColumns(def, args[2:])
	for width := 1 + len(columns); text == "" && len(rows) >= width; rows = rows[width:] {
		if mid, ok := schema.ParseMid(rows[0]); ok {
			f(mid)
		}
	}
	return text == ""
}

// replySetRows answers how many posts were set, or why none was.
func replySetRows(c *Call, o *Owed) {
	if !c.firstError(o) {
		c.Out.Int(int64(o.n))
	}
}
