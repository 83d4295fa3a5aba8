package cli

import (
	"fmt"
	"io"
	"os"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// visible is a writer that makes text harmless for a terminal: control characters, and those that change the direction
// of text, become Go's escapes for them. Tools print what servers, etcd and files say: error texts, names, keys. Anyone
// who can write there could otherwise move the cursor, hide lines, or set a terminal's title.
//
// A line feed and a tab stay. The escapes are those of JSON where JSON can hold the character. A character may be split
// between two writes: its first bytes wait for the rest, or for flush. A visible is used by one goroutine at a time, as
// far as characters are split.
type visible struct {
	w    io.Writer
	part []byte // of a character, at most 3 bytes
}

// Write implements io.Writer. It returns len(p) unless the writer below fails.
func (v *visible) Write(p []byte) (int, error) {
	text := p
	if len(v.part) > 0 {
		text = append(v.part, p...)
		v.part = nil
	}
	whole := len(text)
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				whole -= n
			}
			break
		}
	}
	if whole < len(text) {
		v.part = append([]byte(nil), text[whole:]...)
	}
	if _, err := v.w.Write(escape(text[:whole])); err != nil {
		return 0, err
	}
	return len(p), nil
}

// flush writes the part of a character that never became whole.
func (v *visible) flush() {
	if len(v.part) > 0 {
		_, _ = v.w.Write(escape(v.part)) // the writer below remembers its errors
		v.part = nil
	}
}

// escape returns text with escapes; text itself where there is nothing to escape.
func escape(text []byte) []byte {
	var out []byte // nil until there is something
	done := 0
	for i := 0; i < len(text); {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(text[i:])
		}
		if !harmless(r, size) {
			out = append(out, text[done:i]...)
			if r == utf8.RuneError && size == 1 {
				out = fmt.Appendf(out, `\x%02x`, text[i])
			} else {
				out = fmt.Appendf(out, `\u%04x`, r)
			}
			done = i + size
		}
		i += size
	}
	if out == nil {
		return text
	}
	return append(out, text[done:]...)
}

// harmless tells whether a terminal shows a character and does nothing else.
func harmless(r rune, size int) bool {
	switch {
	case r == '\n' || r == '\t' || r >= ' ' && r < 0x7f:
		return true
	case r == utf8.RuneError && size == 1:
		return false
	}
	return !unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r) && r != '\u2028' && r != '\u2029'
}

// Terminal returns the terminal that a command's Stderr is, for drawing on it. Nothing is escaped there, so never write
// foreign text to it. ok is false if Stderr is no terminal.
func Terminal(w io.Writer) (terminal io.Writer, ok bool) {
	if v, wrapped := w.(*visible); wrapped {
		w = v.w
	}
	return w, isTerminal(w)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
