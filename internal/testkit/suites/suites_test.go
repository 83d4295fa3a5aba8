// Scenario: what the proxy and the reader of a suite do with input of their own; the suites themselves need a checkout.

package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestReadRequest(t *testing.T) {
	r := bufio.NewReader(strings.NewReader("*2\r\n$3\r\nGET\r\n$3\r\nfoo\r\n*1\r\n$4\r\nPING\r\nPING\r\n"))
	for _, want := range []string{"GET foo", "PING"} {
		args, raw, err := readRequest(r)
		if err != nil || string(bytes.Join(args, []byte(" "))) != want || !bytes.Equal(raw, appendRequest(nil, args)) {
			t.Errorf("%q, %q, %v", args, raw, err)
		}
	}
	if _, raw, err := readRequest(r); !errors.Is(err, errRaw) || len(raw) != 0 {
		t.Errorf("an inline command: %q, %v", raw, err)
	}
	// What is no array passes as it is: all that was read of it is in raw.
	for _, wrong := range []string{"*1\r\n$99999999999\r\n", "*1\r\n:1\r\n", "*x\r\n", "*1\r\n$1\r\nabc"} {
		_, raw, err := readRequest(bufio.NewReader(strings.NewReader(wrong)))
		if !errors.Is(err, errRaw) || !strings.HasPrefix(wrong, string(raw)) || len(raw) == 0 {
			t.Errorf("%q: %q, %v", wrong, raw, err)
		}
	}
	if _, raw, err := readRequest(bufio.NewReader(strings.NewReader("*1\r\n$4\r\nPI"))); err == nil || errors.Is(err, errRaw) || !bytes.HasSuffix(raw, []byte("PI")) {
		t.Errorf("a connection that ends inside of a command: %q, %v", raw, err)
	}
	if _, _, err := readRequest(bufio.NewReader(strings.NewReader(""))); !errors.Is(err, io.EOF) {
		t.Errorf("the end: %v", err)
	}
}

func TestTranslate(t *testing.T) {
	n := &names{keys: map[string]keyRange{"get": {1, 1, 1}, "mset": {1, -1, 2}}, mids: map[string]uint64{}}
	translate := func(command string) string {
		return string(bytes.Join(n.translate(bytes.Fields([]byte(command))), []byte(" ")))
	}
	for command, want := range map[string]string{"PING foo": "PING foo", "GET": "GET"} {
		if got := translate(command); got != want {
			t.Errorf("%q became %q", command, got)
		}
	}
	if got, want := translate("MSET a 1 b 2"), "MSET {1000000}.n 1 {1000001}.n 2"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := translate("get b"), "get {1000001}.n"; got != want {
		t.Errorf("%q, want %q: a name keeps its post", got, want)
	}
}

func TestReadOutcomes(t *testing.T) {
	found := readOutcomes("unit/x", "[\x1b[1;32mok\x1b[0m]: INCR works (3 ms)\n[err]: DECR below 0 in tests/unit/x.tcl\nERR would overflow\n[exception]: Executing test client: boom\nmore\n"+
		"!!! WARNING The following tests failed:\n[err]: DECR below 0 in tests/unit/x.tcl\n")
	want := []outcome{{"unit/x", "INCR works", true, ""}, {"unit/x", "DECR below 0", false, "ERR would overflow"}, {"unit/x", "Executing test client: boom", false, "more"}}
	if !slices.Equal(found, want) {
		t.Errorf("%+v, want %+v", found, want)
	}
}

func TestList(t *testing.T) {
	list, err := readList("valkey")
	if err != nil || len(list) < 100 {
		t.Fatalf("%d tests, %v", len(list), err)
	}
	seen := map[leftOut]bool{}
	for _, l := range list {
		key := leftOut{unit: l.unit, test: l.test}
		if seen[key] || !slices.Contains(units, l.unit) {
			t.Errorf("%s, %q stands twice, or its unit does not run", l.unit, l.test)
		}
		seen[key] = true
	}
}
