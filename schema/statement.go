package schema

import (
	"strconv"
	"strings"
)

// Op is the kind of a statement.
type Op uint8

// The statements there are. The zero Op is none of them.
const (
	AddCounter   Op = iota + 1 // Counter, and its attributes
	AddColumn                  // Counter, Column and everything else
	DropColumn                 // Counter, Column
	DropCounter                // Counter
	AlterCounter               // Counter, and its attributes
	AlterColumn                // Counter, Column, and the length of its top list
)

// Statement is one change of a schema. ParseStatement makes sound ones; Apply
// checks those made by hand. Fields that its Op does not use are zero.
type Statement struct {
	Op      Op
	Counter string
	Column  string

	// Of AddColumn; a primary key has Hint and Max 64, no Default and no Suffix.
	Hint       uint8
	Max        uint8
	Default    uint64
	Suffix     string
	PrimaryKey bool

	// Of a derived column, which has Suffix and nothing else of the above.
	Window   Window
	HalfLife int64  // in seconds; 0: none
	Of       string // the column whose additions are counted, or with HalfLife columns and weights, as repost*2+comment
	space    uint32 // id of its space, in the durable form; 0: the next one
	id       uint16 // its own, in the durable form

	// SuffixUnsaid: the text gave no suffix, so Suffix is the column's name. Such a statement also fits a column that is
	// there with the empty suffix: that is what the same line meant once.
	SuffixUnsaid bool

	// Of AddColumn and AlterColumn: the length of the top list, 0: off. Where it is not said, it stays as it is.
	Top     uint16
	SaysTop bool

	// Of AddCounter and AlterCounter. An attribute that is not said stays as it is.
	IDs                          IDs
	Retain                       int64 // in seconds; 0: off
	Old                          bool
	SaysIDs, SaysRetain, SaysOld bool
}

// ParseStatement reads the words of one statement: those of a command, or of a
// line of a script. It keeps none of them.
func ParseStatement[W ~string | ~[]byte](words []W) (Statement, error) {
	var st Statement
	if len(words) < 2 {
		return st, fail(ErrSyntax, "", "a statement has at least 3 words, got %d: want %s", len(words), forms)
	}
	// Of an unknown word, at most a clipped part is copied.
	verb, noun := head(words[0]), head(words[1])
	want := 3
	switch {
	case strings.EqualFold(verb, "add") && strings.EqualFold(noun, "counter"):
		st.Op = AddCounter
	case strings.EqualFold(verb, "add") && strings.EqualFold(noun, "column"):
		st.Op, want = AddColumn, 4
	case strings.EqualFold(verb, "drop") && strings.EqualFold(noun, "column"):
		st.Op, want = DropColumn, 4
	case strings.EqualFold(verb, "drop") && strings.EqualFold(noun, "counter"):
		st.Op = DropCounter
	case strings.EqualFold(verb, "alter") && strings.EqualFold(noun, "counter"):
		st.Op = AlterCounter
	case strings.EqualFold(verb, "alter") && strings.EqualFold(noun, "column"):
		st.Op, want = AlterColumn, 4
	default:
		return st, fail(ErrSyntax, verb, "unknown statement %s %s: want %s", quote(verb), quote(noun), forms)
	}
	if len(words) < want || len(words) > want && (st.Op == DropColumn || st.Op == DropCounter) {
		return Statement{}, fail(ErrSyntax, noun, "%s %s takes %d words, got %d", verb, noun, want, len(words))
	}
	st.Counter = head(words[2])
	if want == 4 {
		st.Column = head(words[3])
	}
	if st.Op == AddColumn {
		// Names come first: the reader of an error looks for a wrong name first.
		if err := st.checkNames(); err != nil {
			return Statement{}, err
		}
		if err := parseAttributes(&st, words[4:]); err != nil {
			return Statement{}, err
		}
	}
	switch st.Op {
	case AddCounter, AlterCounter:
		if err := parseCounter(&st, words[3:]); err != nil {
			return Statement{}, err
		}
	case AlterColumn:
		if err := parseAlteration(&st, words[4:]); err != nil {
			return Statement{}, err
		}
	}
	if err := st.check(); err != nil {
		return Statement{}, err
	}
	return st, nil
}

const forms = "add counter NAME, add column COUNTER NAME attributes, alter counter NAME attributes, alter column COUNTER NAME attributes, drop column COUNTER NAME or drop counter NAME"

// headMax is where words are cut before they are looked at. The limit is above the longest text that AppendText writes.
const headMax = 2 * MaxName

// head is the beginning of a word.
func head[W ~string | ~[]byte](w W) string { return cut(w, headMax) }

// parseAttributes reads what follows the name of a column.
func parseAttributes[W ~string | ~[]byte](st *Statement, words []W) error {
	const hint, max, dflt, suffix, primarykey, top, window, of, decays = 1, 2, 4, 8, 16, 32, 64, 128, 256
	seen := 0
	for _, w := range words {
		word := attributeHead(w)
		key, value, assigned := strings.Cut(word, "=")
		bit := 0
		switch strings.ToLower(key) {
		case "hint":
			bit = hint
		case "max":
			bit = max
		case "default":
			bit = dflt
		case "suffix":
			bit = suffix
		case "primarykey":
			bit = primarykey
		case "top":
			bit = top
		case "window":
			bit = window
		case "decay":
			bit = decays
		case "of":
			bit = of
		default:
			return fail(ErrAttribute, key, "unknown attribute %s: want hint=, max=, default=, suffix=, top=, primarykey, or window= or decay=, and of=", quote(key))
		}
		if seen&bit != 0 {
			return fail(ErrAttribute, key, "attribute %s is given twice", key)
		}
		seen |= bit
		if assigned == (bit == primarykey) {
			if assigned {
				return fail(ErrAttribute, key, "attribute %s takes no value, got %s", key, quote(word))
			}
			return fail(ErrAttribute, key, "attribute %s needs a value: want %s=VALUE", key, key)
		}
		var err error
		switch bit {
		case hint:
			st.Hint, err = parseWidth(key, value)
		case max:
			st.Max, err = parseWidth(key, value)
		case dflt:
			st.Default, err = parseNumber(key, value)
		case suffix:
			st.Suffix = value
		case primarykey:
			st.PrimaryKey = true
		case top:
			st.Top, err = parseTop(value)
			st.SaysTop = true
		case window:
			st.Window, err = parseWindow(value)
		case decays:
			st.HalfLife, err = parseDecay(value)
		case of:
			st.Of = value
		}
		if err != nil {
			return err
		}
	}
	if st.PrimaryKey {
		if seen&(dflt|suffix|top) != 0 {
			return fail(ErrAttribute, "primarykey", "the primary key %s has no default, no suffix and no top", st.Column)
		}
		if seen&hint == 0 {
			st.Hint = 64
		}
		if seen&max == 0 {
			st.Max = 64
		}
		return nil
	}
	if seen&(window|decays|of) != 0 {
		if seen&(hint|max|dflt) != 0 {
			return fail(ErrAttribute, "of", "column %s is derived: it has no hint, max or default", st.Column)
		}
		if seen&suffix == 0 {
			st.Suffix, st.SuffixUnsaid = st.Column, true
		}
		return nil
	}
	if seen&hint == 0 {
		return fail(ErrAttribute, "hint", "attribute hint is missing: column %s needs hint=BITS", st.Column)
	}
	if seen&max == 0 {
		st.Max = st.Hint
	}
	if seen&suffix == 0 {
		st.Suffix, st.SuffixUnsaid = st.Column, true
	}
	return nil
}

func parseWidth(key, value string) (uint8, error) {
	n, err := parseNumber(key, value)
	if err != nil {
		return 0, err
	}
	if n < 1 || n > 64 {
		return 0, fail(ErrAttribute, key, "%s=%s is out of range: want 1 to 64 bits", key, value)
	}
	return uint8(n), nil
}

// parseNumber takes no more than the 20 digits of 2^64-1, so that a number that
// was cut at headMax is no number.
func parseNumber(key, value string) (uint64, error) {
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil || len(value) > 20 {
		return 0, fail(ErrAttribute, key, "%s=%s is not a number: want 1 to 20 decimal digits, at most 2^64-1", key, quote(value))
	}
	return n, nil
}

// check holds st to every rule that needs no schema.
func (st *Statement) check() error {
	if err := st.checkNames(); err != nil {
		return err
	}
	if st.Derives() || st.Of != "" {
		if err := st.checkDerived(); err != nil {
			return err
		}
		return st.checkSuffix()
	}
	if st.Op == AddCounter || st.Op == AlterCounter {
		return st.checkCounter()
	}
	if err := st.checkTop(); err != nil {
		return err
	}
	if st.Op != AddColumn {
		return nil
	}
	if st.PrimaryKey {
		if st.Hint != 64 || st.Max != 64 {
			return fail(ErrAttribute, "primarykey", "the primary key %s has hint=%d max=%d: want hint=64 max=64", st.Column, st.Hint, st.Max)
		}
		if st.Default != 0 || st.Suffix != "" || st.SaysTop {
			return fail(ErrAttribute, "primarykey", "the primary key %s has no default, no suffix and no top", st.Column)
		}
		return nil
	}
	if st.Hint < 1 || st.Hint > st.Max || st.Max > 64 {
		return fail(ErrAttribute, "hint", "column %s has hint=%d max=%d: want 1 <= hint <= max <= 64", st.Column, st.Hint, st.Max)
	}
	if st.Default > Limit(st.Max) {
		return fail(ErrAttribute, "default", "default=%d is out of range: a column of max=%d holds 0 to %d", st.Default, st.Max, Limit(st.Max))
	}
	return st.checkSuffix()
}

// checkSuffix holds the suffix of a column to the rules.
func (st *Statement) checkSuffix() error {
	if len(st.Suffix) > MaxName {
		return fail(ErrName, st.Suffix, "suffix %s is too long: want at most %d bytes", quote(st.Suffix), MaxName)
	}
	for i := range len(st.Suffix) {
		if !isWord(st.Suffix[i]) {
			return fail(ErrName, st.Suffix, "bad suffix %s: want letters, digits and _", quote(st.Suffix))
		}
	}
	return nil
}

// checkNames holds the names of st, and that it is a statement, to the rules.
func (st *Statement) checkNames() error {
	if st.Op < AddCounter || st.Op > AlterColumn {
		return fail(ErrSyntax, "", "unknown statement: op %d", st.Op)
	}
	if err := checkName("counter", st.Counter); err != nil {
		return err
	}
	if st.namesColumn() {
		return checkName("column", st.Column)
	}
	return nil
}

// namesColumn tells whether st is about a column.
func (st *Statement) namesColumn() bool {
	return st.Op == AddColumn || st.Op == DropColumn || st.Op == AlterColumn
}

func checkName(what, name string) error {
	if len(name) > MaxName {
		return fail(ErrName, name, "%s name %s is too long: want at most %d bytes", what, quote(name), MaxName)
	}
	bad := name == "" || '0' <= name[0] && name[0] <= '9'
	for i := 0; i < len(name) && !bad; i++ {
		bad = !isWord(name[i])
	}
	if bad {
		return fail(ErrName, name, "bad %s name %s: want letters, digits and _, no digit first", what, quote(name))
	}
	return nil
}

// isWord reports whether c may stand in a name or suffix.
func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

// String is the statement as a script has it, every attribute included.
func (st Statement) String() string { return string(st.append(nil)) }

func (st *Statement) append(dst []byte) []byte {
	switch st.Op {
	case AddCounter:
		dst = append(dst, "add counter "...)
	case AddColumn:
		dst = append(dst, "add column "...)
	case DropColumn:
		dst = append(dst, "drop column "...)
	case DropCounter:
		dst = append(dst, "drop counter "...)
	case AlterCounter:
		dst = append(dst, "alter counter "...)
	case AlterColumn:
		dst = append(dst, "alter column "...)
	default:
		return append(dst, "unknown statement"...)
	}
	dst = append(dst, st.Counter...)
	if st.namesColumn() {
		dst = append(dst, ' ')
		dst = append(dst, st.Column...)
	}
	if st.SaysIDs {
		dst = append(append(dst, " ids="...), st.IDs.String()...)
	}
	if st.SaysRetain {
		dst = appendRetain(append(dst, " retain="...), st.Retain)
	}
	if st.SaysOld {
		dst = appendOld(append(dst, " old="...), st.Old)
	}
	if st.Op == AlterColumn {
		return st.appendTop(dst)
	}
	if st.Op != AddColumn {
		return dst
	}
	if st.Derives() {
		return st.appendDerived(dst)
	}
	dst = append(dst, " hint="...)
	dst = strconv.AppendUint(dst, uint64(st.Hint), 10)
	dst = append(dst, " max="...)
	dst = strconv.AppendUint(dst, uint64(st.Max), 10)
	if st.PrimaryKey {
		return append(dst, " primarykey"...)
	}
	dst = append(dst, " default="...)
	dst = strconv.AppendUint(dst, st.Default, 10)
	dst = append(dst, " suffix="...)
	return st.appendTop(append(dst, st.Suffix...))
}

// keyStatement declares the primary key of a counter.
func keyStatement(counter, key string) Statement {
	return Statement{Op: AddColumn, Counter: counter, Column: key, Hint: 64, Max: 64, PrimaryKey: true}
}

// columnStatement adds c to a counter.
func columnStatement(counter string, c *Column) Statement {
	return Statement{
		Op: AddColumn, Counter: counter, Column: c.Name,
		Hint: c.Hint, Max: c.Max, Default: c.Default, Suffix: c.Suffix, Top: c.Top, SaysTop: c.Top != 0,
	}
}

// counterStatement adds c.
func counterStatement(c *Counter) Statement {
	return Statement{Op: AddCounter, Counter: c.Name, IDs: c.IDs, SaysIDs: c.IDs != (IDs{}), Retain: c.Retain, SaysRetain: c.Retain != 0, Old: c.Old, SaysOld: c.Old}
}
