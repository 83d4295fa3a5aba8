package schema

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The durable form is the script of String with ids, for manifests and for the
// log, where a schema change is the whole schema after it. It is text, so that
// a manifest can be read with any tool:
//
//	schema format=1
//	add column weibo mid hint=64 max=64 primarykey            if declared
//	add counter weibo id=1
//	add column weibo comment hint=16 max=32 default=0 suffix=cntcm id=1
//	add column weibo attitude hint=8 max=32 default=0 suffix=cntan id=3
//	next column weibo id=4                                    after its columns
//	add column later id hint=64 max=64 primarykey             of a counter to come
//	next counter id=2                                         the last line
//
// Ids rise from line to line and may leave gaps, where something was dropped. A
// next line is the id that the next column or counter will get; one past the
// highest id (65536, 4294967296) says that none is left.
//
// Format 2 is that of a schema with ids= or retain= of a counter, so that programs that do not know these refuse it:
//
//	schema format=2
//	add counter weibo ids=weibo retain=730d id=1
//
// Format 3 is that of a schema with top= of a column:
//
//	schema format=3
//	add column weibo repost hint=16 max=32 default=0 suffix=cntrn top=1000 id=2
//
// Format 4 is that of a schema with derived columns. Their lines stand behind those of the counter's other columns. Their space is an id as
// counters have:
//
//	schema format=4
//	add column weibo repost1h window=1h/5m of=repost suffix=repost1h space=2 id=4
//
// Format 5 is that of a schema with derived columns that decay:
//
//	schema format=5
//	add column weibo heat decay=6h of=repost*2+comment suffix=heat top=1000 space=3 id=5
//
// Format 6 is that of a schema with top= of a column that counts in a window:
//
//	schema format=6
//	add column weibo repost1h window=1h/5m of=repost suffix=repost1h top=1000 space=2 id=4
//
// Format 7 is that of a schema with old= of a counter, whose records in the log have kinds of their own:
//
//	schema format=7
//	add counter weibo old=on id=1
//
// There is exactly one such text for a schema: ParseDurable takes nothing that
// AppendText would have written differently. These words are a file format and
// must not change; a new form is a new format number. The text carries no
// checksum of its own, the file around it does.
const (
	durableFormat = 1
	agingFormat   = 2 // a counter has IDs
	topFormat     = 3 // a column has Top
	derivedFormat = 4 // a counter has derived columns
	decayFormat   = 5 // some of them decay
	hottestFormat = 6 // some of them count in a window and have Top
	oldFormat     = 7 // a counter has Old
)

// NewestFormat is the newest format of the durable form that this program reads.
const NewestFormat = oldFormat

// FormatOf is the number in the first line of a durable form, which may be newer than NewestFormat. The error is ErrCorrupt.
func FormatOf(text []byte) (uint32, error) {
	line, _, _ := bytes.Cut(text, []byte{'\n'})
	number, found := bytes.CutPrefix(line, []byte("schema format="))
	if !found || len(number) > 10 {
		return 0, fmt.Errorf("%w: the schema starts %s: want \"schema format=%d\"", ErrCorrupt, quote(head(line)), durableFormat)
	}
	n, err := strconv.ParseUint(string(number), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%w: the schema has format %s: want %d", ErrCorrupt, quote(string(number)), durableFormat)
	}
	return uint32(n), nil
}

// format is that of the durable form of s.
func (s *Schema) format() uint64 {
	format := uint64(durableFormat)
	for _, c := range s.counters {
		for i := range c.Derived {
			switch of := &c.Derived[i]; {
			case of.Decays():
				format = max(format, decayFormat)
			case of.Top > 0:
				format = hottestFormat
			default:
				format = max(format, derivedFormat)
			}
		}
		if c.IDs != (IDs{}) {
			format = max(format, agingFormat)
		}
		if c.Old {
			return oldFormat
		}
	}
	for _, c := range s.counters {
		for i := range c.Columns {
			if c.Columns[i].Top > 0 {
				format = max(format, topFormat)
			}
		}
	}
	return format
}

// AppendText appends the durable form of s, at most MaxDurable bytes.
func (s *Schema) AppendText(dst []byte) []byte {
	line := func(st Statement) {
		dst = st.append(dst)
		dst = append(dst, '\n')
	}
	lineID := func(st Statement, id uint64) {
		dst = st.append(dst)
		dst = appendID(dst, id)
	}
	dst = append(dst, "schema format="...)
	dst = strconv.AppendUint(dst, s.format(), 10)
	dst = append(dst, '\n')
	for _, c := range s.counters {
		if c.keyDeclared {
			line(keyStatement(c.Name, c.Key))
		}
		lineID(counterStatement(c), uint64(c.ID))
		for i := range c.Columns {
			lineID(columnStatement(c.Name, &c.Columns[i]), uint64(c.Columns[i].ID))
		}
		for i := range c.Derived {
			st := c.Derived[i].statement(c)
			dst = st.append(dst)
			dst = strconv.AppendUint(append(dst, " space="...), uint64(st.space), 10)
			dst = appendID(dst, uint64(c.Derived[i].ID))
		}
		dst = append(dst, "next column "...)
		dst = append(dst, c.Name...)
		dst = appendID(dst, uint64(c.lastColumn)+1)
	}
	for _, p := range s.pending {
		line(keyStatement(p.counter, p.key))
	}
	dst = append(dst, "next counter"...)
	return appendID(dst, uint64(s.lastCounter)+1)
}

func appendID(dst []byte, id uint64) []byte {
	dst = append(dst, " id="...)
	dst = strconv.AppendUint(dst, id, 10)
	return append(dst, '\n')
}

// ParseDurable reads what AppendText wrote, ids and gaps included. Anything else
// is ErrCorrupt, with the line if one is at fault; a format that this program
// does not know is ErrVersion.
func ParseDurable(text []byte) (*Schema, error) {
	if len(text) > MaxDurable {
		return nil, fmt.Errorf("%w: a schema of %d bytes: want at most %d", ErrCorrupt, len(text), MaxDurable)
	}
	if err := checkFormat(text); err != nil {
		return nil, err
	}
	d := Empty().thaw()
	first := true
	err := eachLine(text, func(words []string) error {
		if first {
			first = false
			return nil
		}
		return d.applyDurable(words)
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	d.changed = true // next lines alone make a schema too
	s := d.freeze()
	if err := s.checkDerivedIDs(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if got := s.AppendText(make([]byte, 0, len(text))); !bytes.Equal(got, text) {
		at := 0
		for at < min(len(got), len(text)) && got[at] == text[at] {
			at++
		}
		return nil, fmt.Errorf("%w: the schema is not in its durable form from byte %d on", ErrCorrupt, at)
	}
	return s, nil
}

// checkFormat reads the first line.
func checkFormat(text []byte) error {
	n, err := FormatOf(text)
	if err == nil && (n < durableFormat || n > NewestFormat) {
		err = fmt.Errorf("%w: the schema has format %d: want %d to %d", ErrVersion, n, durableFormat, NewestFormat)
	}
	return err
}

var errNextLine = errors.New("a next line: want next column NAME id=N, or next counter id=N")

// applyDurable applies one line after the first. An id is taken over by setting
// the last one given to just below it.
func (d *draft) applyDurable(words []string) error {
	last := len(words) - 1
	id, hasID, err := parseID(words[last])
	if err != nil {
		return err
	}
	if words[0] == "next" {
		switch {
		case !hasID || last < 2:
			return errNextLine
		case words[1] == "counter" && last == 2:
			return setLast(&d.lastCounter, id, math.MaxUint32)
		case words[1] == "column" && last == 3:
			i, err := d.mustCounter(words[2])
			if err != nil {
				return err
			}
			return setLast(&d.own(i).lastColumn, id, math.MaxUint16)
		}
		return errNextLine
	}
	if hasID {
		words = words[:last]
	}
	space := uint64(0)
	if number, ok := strings.CutPrefix(words[len(words)-1], "space="); ok && hasID {
		if space, err = parseNumber("space", number); err != nil {
			return err
		}
		words = words[:len(words)-1]
	}
	st, err := ParseStatement(words)
	if err != nil {
		return err
	}
	if st.Derives() || space > 0 {
		if err := st.setDerivedIDs(space, id); err != nil {
			return err
		}
		return d.apply(st)
	}
	if hasID {
		switch {
		case st.Op == AddCounter:
			err = setLast(&d.lastCounter, id, math.MaxUint32)
		case st.Op == AddColumn && !st.PrimaryKey:
			var i int
			if i, err = d.mustCounter(st.Counter); err == nil {
				err = setLast(&d.own(i).lastColumn, id, math.MaxUint16)
			}
		}
		if err != nil {
			return err
		}
	}
	return d.apply(st)
}

func parseID(word string) (id uint64, ok bool, err error) {
	number, ok := strings.CutPrefix(word, "id=")
	if !ok {
		return 0, false, nil
	}
	id, err = parseNumber("id", number)
	return id, true, err
}

// setLast makes next the id that follows last, if ids still rise that way.
func setLast[T uint16 | uint32](last *T, next uint64, max T) error {
	if next <= uint64(*last) || next-1 > uint64(max) {
		return fail(ErrAttribute, "id", "id=%d is out of order: want %d to %d", next, uint64(*last)+1, uint64(max)+1)
	}
	*last = T(next - 1)
	return nil
}
