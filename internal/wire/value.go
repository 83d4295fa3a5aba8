package wire

import (
	"fmt"
	"strconv"
	"strings"
)

// Value is any reply, for commands outside the measured path. Exactly one of its kinds holds:
// a null, an integer, a string (status, bulk, or an error inside an array), an array.
type Value struct {
	Null  bool
	IsInt bool
	IsErr bool // Str is the text of an error reply inside an array
	Int   int64
	Str   string
	Array []Value // nil unless the reply is an array or a map, whose keys and values alternate
}

// Text returns a string or integer as text, and an array's elements one a line.
func (v Value) Text() string {
	switch {
	case v.IsInt:
		return strconv.FormatInt(v.Int, 10)
	case v.Array != nil:
		lines := make([]string, len(v.Array))
		for i, element := range v.Array {
			lines[i] = element.Text()
		}
		return strings.Join(lines, "\n")
	}
	return v.Str
}

// ReadValue consumes one reply of any kind. An error reply inside an array is a Value there; the reply being one is
// a *ServerError. It holds at most MaxArray values, in all its arrays together, and MaxText bytes of strings.
func (r *Reader) ReadValue() (Value, error) {
	var open [MaxDepth]struct { // the arrays that are begun, each within the one before
		elements []Value
		size     int
	}
	depth, values, text := 0, MaxArray, MaxText
	for {
		v, size, err := r.element(text)
		if failed, ok := err.(*ServerError); ok && depth > 0 {
			v, size, err = Value{IsErr: true, Str: failed.Text}, -1, nil
		}
		if err != nil {
			return Value{}, err
		}
		text -= len(v.Str)
		switch {
		case size > values:
			return Value{}, fmt.Errorf("%w: a reply of more than %d values", ErrProtocol, MaxArray)
		case size > 0 && depth == MaxDepth:
			return Value{}, fmt.Errorf("%w: arrays nested deeper than %d", ErrProtocol, MaxDepth)
		case size > 0:
			values -= size
			// The elements are not there yet, so no more room than a small reply needs is taken on the server's word.
			open[depth].elements, open[depth].size = make([]Value, 0, min(size, 64)), size
			depth++
			continue
		case size == 0:
			v.Array = []Value{}
		}
		for ; depth > 0; depth-- { // v may be the last of its array, which may be the last of the one around it
			top := &open[depth-1]
			if top.elements = append(top.elements, v); len(top.elements) < top.size {
				break
			}
			v = Value{Array: top.elements}
		}
		if depth == 0 {
			return v, nil
		}
	}
}

// element consumes a reply that is no array, or the head of one, of which size elements follow; else size is -1. A
// string may have text bytes.
func (r *Reader) element(text int) (v Value, size int, err error) {
	kind, rest, err := r.header()
	if err != nil {
		return Value{}, -1, err
	}
	switch kind {
	case '+', ',', '#', '(':
		if len(rest) > text {
			return Value{}, -1, tooMuchText()
		}
		return Value{Str: string(rest)}, -1, nil
	case '_':
		return Value{Null: true}, -1, nil
	case ':':
		if n, ok := parseInt(rest); ok {
			return Value{IsInt: true, Int: n}, -1, nil
		}
	case '$', '=':
		n, ok := parseLen(rest, MaxBulk)
		if !ok {
			break
		}
		if n < 0 {
			return Value{Null: true}, -1, nil
		}
		if n > text {
			return Value{}, -1, tooMuchText()
		}
		body, err := r.bulk(n)
		if err != nil {
			return Value{}, -1, err
		}
		if kind == '=' && len(body) > 4 {
			body = body[4:] // verbatim string: "txt:" precedes the text
		}
		return Value{Str: string(body)}, -1, nil
	case '*', '~', '%':
		n, ok := parseLen(rest, MaxArray)
		if !ok {
			break
		}
		if n < 0 {
			return Value{Null: true}, -1, nil
		}
		if kind == '%' {
			n *= 2
		}
		return Value{}, n, nil
	}
	return Value{}, -1, unexpected("a reply", kind, rest)
}

func tooMuchText() error {
	return fmt.Errorf("%w: a reply of more than %d bytes of strings", ErrProtocol, MaxText)
}
