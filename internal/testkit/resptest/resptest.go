// Package resptest reads the replies of a server under test strictly: every byte must be as the protocol has it.
//
//	line          + - : $ * of RESP2, and _ , # ( = ~ % > of RESP3, ended by CRLF, with no other CR in it
//	number        decimal, as it is written shortest: no plus, no leading zero, no minus zero
//	$n =n         n bytes and CRLF; = begins with txt:
//	null          $-1 and *-1 in RESP2, _ in RESP3
//	# ,           t or f; a floating-point number
//	(             a number that is none of 64 bits
//	inside *%~>   no error that a client library acts on: it is the whole reply, or it does not come
//
// It shares nothing with package wire, the client that is in use: a mistake that both share would not show.
package resptest

import (
	"bufio"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"
	"testing"
)

// Versions of the protocol that Read takes.
const (
	Any   = 0 // types of either version
	RESP2 = 2
	RESP3 = 3
)

// maxLength bounds a reply, in bytes or elements: one above it is a defect, not a test's data.
const maxLength = 64 << 20

// Value is one reply: its exact bytes and their meaning.
type Value struct {
	Raw  string  // the bytes as received
	Kind byte    // + - : $ * _ % ~ , # ( = >
	Text string  // of a line, or a string; without txt:
	N    int64   // of a number, or a length
	Null bool    // $-1, *-1 or _
	List []Value // of * ~ > and %, where keys and values alternate
}

// Read reads one reply, as of a version of the protocol. The error is io.EOF only where not one byte came.
func Read(r *bufio.Reader, proto int) (v Value, err error) {
	line, err := r.ReadString('\n')
	v.Raw = line
	if err != nil {
		if line != "" {
			err = unexpected(err)
		}
		return v, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' || strings.ContainsRune(line[:len(line)-2], '\r') {
		return v, fmt.Errorf("line %q does not end in CRLF, or has another CR", line)
	}
	v.Kind, v.Text = line[0], line[1:len(line)-2]
	if !strings.ContainsRune("+-:$*", rune(v.Kind)) && (proto == RESP2 || !strings.ContainsRune("_,#(=~%>", rune(v.Kind))) {
		return v, fmt.Errorf("line %q begins with no type", line)
	}
	good := true
	switch v.Kind {
	case '+', '-':
	case ',':
		_, err = strconv.ParseFloat(v.Text, 64)
		good = err == nil
	case '_':
		v.Null, good = true, v.Text == ""
	case '(':
		n, ok := new(big.Int).SetString(v.Text, 10)
		good = ok && n.String() == v.Text && !n.IsInt64()
	case '#':
		good = v.Text == "t" || v.Text == "f"
	default:
		v.N, err = strconv.ParseInt(v.Text, 10, 64)
		good = err == nil && strconv.FormatInt(v.N, 10) == v.Text
	}
	if !good || v.Kind == '_' && proto == RESP2 {
		return v, fmt.Errorf("line %q is not what its type wants", line)
	}
	switch v.Kind {
	case '$', '*':
		if v.N == -1 && proto != RESP3 {
			v.Null = true
			return v, nil
		}
		fallthrough
	case '=', '~', '>', '%':
		if v.N < 0 || v.N > maxLength {
			return v, fmt.Errorf("length in %q", line)
		}
	}
	switch v.Kind {
	case '$', '=':
		err = v.readString(r)
	case '*', '~', '>', '%':
		err = v.readList(r, proto)
	}
	return v, err
}

// readString reads the N bytes of a string.
func (v *Value) readString(r io.Reader) error {
	body := make([]byte, v.N+2)
	n, err := io.ReadFull(r, body)
	v.Raw += string(body[:n])
	if err != nil {
		return unexpected(err)
	}
	if body[v.N] != '\r' || body[v.N+1] != '\n' {
		return fmt.Errorf("a string of %d bytes is longer: %q", v.N, body)
	}
	v.Text = string(body[:v.N])
	if v.Kind == '=' {
		text, ok := strings.CutPrefix(v.Text, "txt:")
		if !ok {
			return fmt.Errorf("verbatim string %q", v.Text)
		}
		v.Text = text
	}
	return nil
}

// readList reads the N elements of a list, or the N pairs of a map.
func (v *Value) readList(r *bufio.Reader, proto int) error {
	n := v.N
	if v.Kind == '%' {
		n *= 2
	}
	var raw strings.Builder
	raw.WriteString(v.Raw)
	for range n {
		e, err := Read(r, proto)
		raw.WriteString(e.Raw)
		if err != nil {
			v.Raw = raw.String()
			return unexpected(err)
		}
		if word, _, _ := strings.Cut(e.Text, " "); e.Kind == '-' && wholeReply[word] {
			v.Raw = raw.String()
			return fmt.Errorf("error %q inside of a list", e.Raw)
		}
		v.List = append(v.List, e)
	}
	v.Raw = raw.String()
	return nil
}

// wholeReply are the first words of errors that are the whole reply: they say that a command was asked of the wrong node, or
// at the wrong time, or is in doubt. Client libraries look for them there alone, and go-redis 9.23 stops to read a list at one.
var wholeReply = map[string]bool{"MOVED": true, "ASK": true, "TRYAGAIN": true, "CLUSTERDOWN": true, "CROSSSLOT": true, "LOADING": true, "MASTERDOWN": true,
	"NOREPLICAS": true, "READONLY": true, "UNCERTAIN": true}

// unexpected is err for input that ends within a reply.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// String writes a reply in one line: +OK :1 "bulk" [array] {set} (map) nil.
func (v Value) String() string {
	switch {
	case v.Null:
		return "nil"
	case v.Kind == '$':
		return strconv.Quote(v.Text)
	case v.Kind == '=':
		return "txt" + strconv.Quote(v.Text)
	case v.List != nil || strings.IndexByte("*~%>", v.Kind) >= 0:
		parts := make([]string, len(v.List))
		for i := range v.List {
			parts[i] = v.List[i].String()
		}
		brackets := map[byte]string{'*': "[]", '~': "{}", '%': "()", '>': "><"}[v.Kind]
		return brackets[:1] + strings.Join(parts, " ") + brackets[1:]
	}
	return string(v.Kind) + v.Text
}

// Int returns the number of an integer reply, or of a string of digits.
func (v Value) Int() (int64, error) {
	if v.Kind != ':' && v.Kind != '$' || v.Null {
		return 0, fmt.Errorf("got reply %q, want an integer", v.Raw)
	}
	return strconv.ParseInt(v.Text, 10, 64)
}

// Get finds a value in a map, or in the array that is one in RESP2. It ends the test where there is none.
func (v Value) Get(t testing.TB, key string) Value {
	t.Helper()
	if len(v.List)%2 != 0 || v.Kind != '*' && v.Kind != '%' {
		t.Fatalf("%v is no map", v)
	}
	for i := 0; i < len(v.List); i += 2 {
		if v.List[i].Text == key {
			return v.List[i+1]
		}
	}
	t.Fatalf("no %q in %v", key, v)
	return Value{}
}

// Append appends a command as an array of bulk strings.
func Append(dst []byte, args ...string) []byte {
	dst = append(strconv.AppendInt(append(dst, '*'), int64(len(args)), 10), '\r', '\n')
	for _, arg := range args {
		dst = append(strconv.AppendInt(append(dst, '$'), int64(len(arg)), 10), '\r', '\n')
		dst = append(append(dst, arg...), '\r', '\n')
	}
	return dst
}
