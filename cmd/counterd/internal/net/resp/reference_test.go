package resp

import (
	"bytes"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/seed"
)

// random returns a source for t whose seed is printed if t fails.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(seed.Of(t), 0))
}

// encode is a command as a client library sends it.
func encode(words ...string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.Bytes()
}

// reference parses all of the input from the start with the whole of it in hand:
// slow, without state, and written from the description of the protocol alone.
// text is that of the error, "" if the input ends within or after a command.
func reference(input string, l Limits) (commands [][]string, text string) {
	for input != "" {
		if input[0] != '*' {
			end := strings.IndexByte(input, '\n')
			if end > l.MaxInline || end < 0 && len(input) > l.MaxInline {
				return commands, "Protocol error: too big inline request"
			}
			if end < 0 {
				return commands, ""
			}
			line := strings.TrimSuffix(input[:end], "\r")
			input = input[end+1:]
			words, balanced := referenceSplit(line)
			// Whichever mistake comes first in the line is told: the
			// words before the unbalanced one are in words.
			if len(words) > l.MaxArgs || !balanced && len(words) == l.MaxArgs {
				if l.Unauthenticated {
					return commands, "Protocol error: unauthenticated multibulk length"
				}
				return commands, "Protocol error: invalid multibulk length"
			}
			if !balanced {
				return commands, "Protocol error: unbalanced quotes in request"
			}
			if len(words) > 0 {
				commands = append(commands, words)
			}
			continue
		}
		words, used, text := referenceArray(input, l)
		if text != "" || used == 0 {
			return commands, text
		}
		input = input[used:]
		if len(words) > 0 {
			commands = append(commands, words)
		}
	}
	return commands, ""
}

// referenceArray parses one array; used is 0 if it is incomplete.
func referenceArray(input string, l Limits) (words []string, used int, text string) {
	tooBig := "Protocol error: too big request"
	if l.Unauthenticated {
		tooBig = "Protocol error: unauthenticated bulk length"
	}
	line, state := referenceLine(input, 0, l)
	switch state {
	case lineTooLong:
		return nil, 0, "Protocol error: too big mbulk count string"
	case lineBeyondCommand:
		return nil, 0, tooBig
	case lineIncomplete:
		return nil, 0, ""
	}
	count := referenceNumber(line[1:])
	if state == lineWithoutFeed || count == nil || count.Cmp(big.NewInt(1<<31-1)) > 0 {
		return nil, 0, "Protocol error: invalid multibulk length"
	}
	if count.Cmp(big.NewInt(int64(l.MaxArgs))) > 0 {
		if l.Unauthenticated {
			return nil, 0, "Protocol error: unauthenticated multibulk length"
		}
		return nil, 0, "Protocol error: invalid multibulk length"
	}
	at := len(line) + 2
	for range count.Int64() {
		line, state := referenceLine(input, at, l)
		switch state {
		case lineTooLong:
			return nil, 0, "Protocol error: too big bulk count string"
		case lineBeyondCommand:
			return nil, 0, tooBig
		case lineIncomplete:
			return nil, 0, ""
		}
		if line == "" || line[0] != '$' {
			got := input[at : at+1]
			if got == "\r" || got == "\n" {
				got = " "
			}
			return nil, 0, "Protocol error: expected '$', got '" + got + "'"
		}
		length := referenceNumber(line[1:])
		if state == lineWithoutFeed || length == nil || length.Sign() < 0 || length.Cmp(big.NewInt(512<<20)) > 0 {
			return nil, 0, "Protocol error: invalid bulk length"
		}
		if length.Cmp(big.NewInt(int64(l.MaxBulk))) > 0 {
			if l.Unauthenticated {
				return nil, 0, "Protocol error: unauthenticated bulk length"
			}
			return nil, 0, "Protocol error: invalid bulk length"
		}
		at += len(line) + 2
		end := at + int(length.Int64())
		if end+2 > l.MaxCommand {
			return nil, 0, tooBig
		}
		if end+2 > len(input) {
			return nil, 0, ""
		}
		if input[end:end+2] != "\r\n" {
			return nil, 0, "Protocol error: invalid bulk length"
		}
		words = append(words, input[at:end])
		at = end + 2
	}
	return words, at, ""
}

const (
	lineWhole = iota
	lineWithoutFeed
	lineIncomplete
	lineTooLong
	lineBeyondCommand
)

// referenceLine is the header line at input[at:], without its CRLF. Up to
// MaxInline bytes may stand before the CR, and the line with its CRLF must not
// end beyond MaxCommand; of the two the nearer bound is the one reported.
func referenceLine(input string, at int, l Limits) (string, int) {
	bound, state := l.MaxInline, lineTooLong
	if room := l.MaxCommand - at - 2; room < bound {
		bound, state = room, lineBeyondCommand
	}
	rest := input[at:]
	end := strings.IndexByte(rest, '\r')
	switch {
	case end > bound, end < 0 && len(rest) > bound:
		return "", state
	case end < 0 || end+1 == len(rest):
		return "", lineIncomplete
	case rest[end+1] != '\n':
		return rest[:end], lineWithoutFeed
	}
	return rest[:end], lineWhole
}

// referenceNumber is the number that s spells in the one way Redis accepts, nil
// if there is none or it is not an int64.
func referenceNumber(s string) *big.Int {
	n, ok := new(big.Int).SetString(s, 10)
	if !ok || !n.IsInt64() || n.String() != s {
		return nil
	}
	return n
}

// referenceSplit splits a line by the rules of sdssplitargs, one rule after
// the other, into fresh strings. When the quotes are not balanced words has the
// words before the bad one.
func referenceSplit(line string) (words []string, balanced bool) {
	const spaces = " \t\n\v\f\r"
	for {
		line = strings.TrimLeft(line, spaces)
		if line == "" {
			return words, true
		}
		word := ""
		for line != "" && !strings.ContainsRune(" \t\n\r", rune(line[0])) {
			quote := line[0]
			if quote != '"' && quote != '\'' {
				word += line[:1]
				line = line[1:]
				continue
			}
			inner, rest, ok := referenceQuoted(line[1:], quote)
			if !ok || rest != "" && strings.IndexByte(spaces, rest[0]) < 0 {
				return words, false
			}
			word += inner
			line = rest
			break
		}
		words = append(words, word)
	}
}

// referenceQuoted reads up to and including the closing quote.
func referenceQuoted(s string, quote byte) (value, rest string, ok bool) {
	escapes := map[byte]string{'n': "\n", 'r': "\r", 't': "\t", 'b': "\b", 'a': "\a"}
	for s != "" {
		var b byte
		switch {
		case s[0] == quote:
			return value, s[1:], true
		case quote == '\'' && strings.HasPrefix(s, `\'`):
			value, s = value+"'", s[2:]
		case quote == '"' && len(s) >= 4 && hexByte(s[:4], &b):
			value, s = value+string([]byte{b}), s[4:]
		case quote == '"' && s[0] == '\\' && len(s) >= 2:
			if e, known := escapes[s[1]]; known {
				value += e
			} else {
				value += s[1:2]
			}
			s = s[2:]
		default:
			value, s = value+s[:1], s[1:]
		}
	}
	return "", "", false
}

// hexByte reads \xHH.
func hexByte(s string, b *byte) bool {
	const digits = "0123456789abcdef"
	high := strings.IndexByte(digits, strings.ToLower(s[2:3])[0])
	low := strings.IndexByte(digits, strings.ToLower(s[3:4])[0])
	*b = byte(high<<4 + low)
	return s[:2] == `\x` && high >= 0 && low >= 0
}
