package wire

import (
	"fmt"
	"strconv"
	"strings"
)

// Value is any reply, for commands outside the measured path. Exactly one of its kinds holds:
// a null, an integer, a string (status or bulk), an array.
type Value struct {
	Null  bool
	IsInt bool
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

// ReadValue consumes one reply of any kind. An error reply inside an array is a text there; the reply being one is
// a *ServerError.
func (r *Reader) ReadValue() (Value, error) { return r.readValue(0) }

func (r *Reader) readValue(depth int) (Value, error) {
	if depth > MaxDepth {
		return Value{}, fmt.Errorf("%w: arrays nested deeper than %d", ErrProtocol, MaxDepth)
	}
	kind, rest, err := r.header()
	if err != nil {
		if failed, ok := err.(*ServerError); ok && depth > 0 {
			return Value{Str: failed.Text}, nil
		}
		return Value{}, err
	}
	switch kind {
	case '+', ',', '#', '(':
		return Value{Str: string(rest)}, nil
	case '_':
		return Value{Null: true}, nil
	case ':':
		if n, ok := parseInt(rest); ok {
			return Value{IsInt: true, Int: n}, nil
		}
	case '$', '=':
		n, ok := parseLen(rest, MaxBulk)
		if !ok {
			break
		}
		if n < 0 {
			return Value{Null: true}, nil
		}
		body, err := r.bulk(n)
		if err != nil {
			return Value{}, err
		}
		if kind == '=' && len(body) > 4 {
			body = body[4:] // verbatim string: "txt:" precedes the text
		}
		return Value{Str: string(body)}, nil
	case '*', '~', '%':
		n, ok := parseLen(rest, MaxArray)
		if !ok {
			break
		}
		if n < 0 {
			return Value{Null: true}, nil
		}
		if kind == '%' {
			n *= 2
		}
		// The elements are not there yet, so no more room than a small reply needs is taken on the server's word.
		array := make([]Value, 0, min(n, 64))
		for range n {
			element, err := r.readValue(depth + 1)
			if err != nil {
				return Value{}, err
			}
			array = append(array, element)
		}
		return Value{Array: array}, nil
	}
	return Value{}, unexpected("a reply", kind, rest)
}
