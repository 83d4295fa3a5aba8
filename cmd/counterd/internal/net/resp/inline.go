package resp

import "bytes"

// inline reads one line as a command. A line of nothing but space is consumed
// and answered with no arguments and no error.
func (r *Reader) inline() ([][]byte, error) {
	last := r.pos + r.limits.MaxInline // where the line feed can be at the latest
	from := max(r.scan, r.pos)
	stop := min(r.end, last+1)
	i := -1
	if from < stop {
		i = bytes.IndexByte(r.buf[from:stop], '\n')
	}
	if i < 0 {
		r.examined += int64(max(stop-from, 0))
		if r.end > last {
			return nil, r.fail(tooBigInline, r.end-r.pos, r.limits.MaxInline)
		}
		r.scan = r.end
		return nil, ErrIncomplete
	}
	r.examined += int64(i + 1)
	// A CR before the line feed needs no care: it is a space, and in an open
	// quote the line is an error with it and without.
	line := r.buf[r.pos : from+i]
	next := from + i + 1

	first := len(r.args)
	all, err := splitInline(r.args, line, r.limits.MaxArgs)
	switch {
	case err == errTooManyArgs && r.limits.Unauthenticated:
		return nil, r.fail(unauthMultibulk, r.limits.MaxArgs+1, r.limits.MaxArgs)
	case err == errTooManyArgs:
		return nil, r.fail(invalidMultibulk, r.limits.MaxArgs+1, r.limits.MaxArgs)
	case err == errUnbalanced:
		return nil, r.fail(unbalancedQuotes, 0, 0)
	}
	r.args = all
	r.pos, r.start = next, next
	return all[first:len(all):len(all)], nil
}

type splitError uint8

const (
	splitOK splitError = iota
	errUnbalanced
	errTooManyArgs
)

// splitInline appends the words of line to args, at most most of them. The rules
// are those of sdssplitargs in Redis:
//
//   - words are separated by space, tab, CR, LF, VT or FF, but the last two only
//     where no word has begun: within one they are bytes like others
//   - "..." knows \n \r \t \b \a, \xHH with two hexadecimal digits, and a
//     backslash before any other byte stands for that byte
//   - '...' knows only \'
//   - a quote may begin inside a word (a"b c" is one word, ab c); the closing one
//     must be followed by a space of any kind or by the end of the line
//
// A word is never longer than its source, so it is written over it: the words are
// slices of line, and line is destroyed.
func splitInline(args [][]byte, line []byte, most int) ([][]byte, splitError) {
	first := len(args)
	for i := 0; ; {
		for i < len(line) && isSpace(line[i]) {
			i++
		}
		if i == len(line) {
			return args, splitOK
		}
		if len(args)-first == most {
			return args[:first], errTooManyArgs
		}
		word, next, ok := unquote(line, i)
		if !ok {
			return args[:first], errUnbalanced
		}
		args = append(args, word)
		i = next
	}
}

// unquote reads the word that begins at line[i], writes its value there, and
// returns the value and the position after its source.
func unquote(line []byte, i int) (word []byte, next int, ok bool) {
	w := i // next byte of the value; never passes i
	start := i
	for i < len(line) {
		switch c := line[i]; c {
		case ' ', '\t', '\r', '\n':
			return line[start:w:w], i, true
		case '"', '\'':
			if w, i, ok = unquoteString(line, w, i+1, c); !ok {
				return nil, 0, false
			}
			// A space or the end follows. It ends the word also if it is VT or
			// FF, which an open word would take in.
			return line[start:w:w], i, true
		default:
			line[w] = c
			w, i = w+1, i+1
		}
	}
	return line[start:w:w], i, true
}

// unquoteString copies the quoted string whose first byte is line[i] to line[w:]
// and returns the positions after the copy and after the closing quote.
func unquoteString(line []byte, w, i int, quote byte) (int, int, bool) {
	for i < len(line) {
		c := line[i]
		switch {
		case c == quote:
			i++
			return w, i, i == len(line) || isSpace(line[i])
		case c != '\\' || i+1 == len(line):
			// A backslash at the very end escapes nothing, and the
			// string is unterminated anyway.
		case quote == '\'':
			if line[i+1] == '\'' {
				c = '\''
				i++
			}
		case line[i+1] == 'x' && i+3 < len(line) && isHex(line[i+2]) && isHex(line[i+3]):
			c = unhex(line[i+2])<<4 | unhex(line[i+3])
			i += 3
		default:
			i++
			c = unescape(line[i])
		}
		line[w] = c
		w, i = w+1, i+1
	}
	return 0, 0, false
}

// unescape is the byte that a backslash before c stands for.
func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

// isSpace is C's isspace in the C locale.
func isSpace(c byte) bool { return c == ' ' || c-'\t' <= '\r'-'\t' }

func isHex(c byte) bool { return c-'0' <= 9 || (c|0x20)-'a' <= 5 }

// unhex is the value of a hexadecimal digit.
func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return (c | 0x20) - 'a' + 10
}
