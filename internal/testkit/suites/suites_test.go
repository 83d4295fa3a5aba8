// Scenario: what the proxy and the reader of a suite do with input of their own; the suites themselves need a checkout.

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/slot"
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
	// A command that is no array passes as it is: all that was read of it is in raw.
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

// sampleNames are names of a server with three commands.
func sampleNames() *names {
	return newNames(map[string]keyRange{"get": {1, 1, 1}, "set": {1, 1, 1}, "mset": {1, -1, 2}, "del": {1, -1, 1}})
}

// TestTranslate sends commands through the names, and reads their keys and values back.
func TestTranslate(t *testing.T) {
	n := sampleNames()
	translate := func(command string) [][]byte { return n.translate(bytes.Split([]byte(command), []byte(" "))) }
	for _, command := range []string{"PING foo", "GET"} {
		if got := string(bytes.Join(translate(command), []byte(" "))); got != command {
			t.Errorf("%q became %q", command, got)
		}
	}
	args := translate("MSET a one {x}b 2")
	for i, want := range map[int]string{1: "a", 2: "one", 3: "{x}b"} {
		if got, ok := n.original(args[i]); !ok || got != want {
			t.Errorf("%q stands for %q, %v, want %q", args[i], got, ok, want)
		}
	}
	if string(args[4]) != "2" {
		t.Errorf("the whole number 2 became %q", args[4])
	}
	if a, b := slot.OfKey(args[3]), slot.OfKey([]byte("{x}b")); a != b {
		t.Errorf("the key %s of {x}b is in slot %d, want %d", args[3], a, b)
	}
	if again := translate("get a"); !bytes.Equal(again[1], args[1]) {
		t.Errorf("a name is %q and then %q", args[1], again[1])
	}
	if post := translate("DEL a")[1]; !bytes.Equal(append(post, ".n"...), args[1]) {
		t.Errorf("DEL names %q, want the post of %q", post, args[1])
	}
	for _, value := range []string{" 11", "-5", "99999999999999999999999"} {
		if got := string(n.number([]byte(value))); got != value {
			t.Errorf("the value %q became %q: a server must see and refuse it", value, got)
		}
	}
	for _, other := range []string{"7770000000001", "5", "x", "", "8880000000007"} {
		if got, ok := n.original([]byte(other)); ok {
			t.Errorf("%q stands for %q, and for nothing by the names", other, got)
		}
	}
}

// TestReplies reads replies of a server through the names.
func TestReplies(t *testing.T) {
	n := sampleNames()
	key, value := string(n.post([]byte("foo"))), string(n.number([]byte("bar")))
	mid := strings.Trim(key, "{}.n")
	bulk := func(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }
	for server, want := range map[string]string{
		bulk(value) + "+OK\r\n:1\r\n":                 bulk("bar") + "+OK\r\n:1\r\n",
		"*2\r\n" + bulk(mid) + "*1\r\n" + bulk(mid):   "*2\r\n" + bulk(mid) + "*1\r\n" + bulk("foo"), // the cursor of a SCAN
		"*2\r\n" + bulk(value) + bulk("x"):            "*2\r\n" + bulk("bar") + bulk("x"),
		"+1.5 [0 a] \"GET\" \"" + key + "\"\r\n":      "+1.5 [0 a] \"GET\" \"foo\"\r\n",
		"$-1\r\n:5503\r\n":                            "$-1\r\n:5460\r\n",
		bulk(strings.Repeat("x\r\n", 50)) + bulk(key): bulk(strings.Repeat("x\r\n", 50)) + bulk("foo"),
	} {
		var client bytes.Buffer
		p := &replies{names: n, integers: map[string]string{"5503": "5460"}}
		if err := p.copy(&client, strings.NewReader(server)); !errors.Is(err, io.EOF) || client.String() != want {
			t.Errorf("%q became %q, %v, want %q", server, client.String(), err, want)
		}
	}
	p, stream := &replies{names: n}, "+FULLRESYNC\r\n$5\r\n"+bulk(key)
	p.raw.Store(true)
	var client bytes.Buffer
	if err := p.copy(&client, strings.NewReader(stream)); err != nil || client.String() != stream {
		t.Errorf("a stream that is no RESP became %q, %v", client.String(), err)
	}
}

func TestReadOutcomes(t *testing.T) {
	found := readOutcomes("unit/x", "[\x1b[1;32mok\x1b[0m]: INCR works (3 ms)\n[err]: DECR below 0 in tests/unit/x.tcl\nERR would overflow\n[exception]: Executing test client: boom\nmore\n"+
		"!!! WARNING The following tests failed:\n[err]: DECR below 0 in tests/unit/x.tcl\n")
	found = append(found, readOutcomes("unit/x", "sock5 => (IN PROGRESS) Waits\n")...)
	want := []outcome{{"unit/x", "INCR works", true, ""}, {"unit/x", "DECR below 0", false, "ERR would overflow"}, {"unit/x", "Executing test client: boom", false, "more"}, {"unit/x", "Waits", false, "waited for a reply that did not come"}}
	if !slices.Equal(found, want) {
		t.Errorf("%+v, want %+v", found, want)
	}
}

// TestReports reads a report of each program that runs tests.
func TestReports(t *testing.T) {
	check := func(name string, found []outcome, err error, want ...outcome) {
		t.Helper()
		if err != nil || !slices.Equal(found, want) {
			t.Errorf("%s: %+v, %v, want %+v", name, found, err, want)
		}
	}
	found, err := readGinkgo([]byte(`[{"SpecReports":[
		{"LeafNodeType":"BeforeSuite","State":"passed"},
		{"ContainerHierarchyTexts":["Client"],"LeafNodeType":"It","LeafNodeText":"pings","LeafNodeLocation":{"FileName":"/x/a_test.go"},"State":"passed"},
		{"ContainerHierarchyTexts":["Client"],"LeafNodeType":"It","LeafNodeText":"waits","LeafNodeLocation":{"FileName":"/x/a_test.go"},"State":"skipped"},
		{"ContainerHierarchyTexts":["Client"],"LeafNodeType":"It","LeafNodeText":"fails","LeafNodeLocation":{"FileName":"/x/a_test.go"},"State":"failed","Failure":{"Message":"no"}}]}]`))
	check("Ginkgo", found, err, outcome{"a_test.go", "Client pings", true, " "}, outcome{"a_test.go", "Client fails", false, " no"})
	found, err = readGoTest("m.org/r", []byte(`{"Action":"run","Package":"m.org/r/p","Test":"TestA"}
{"Action":"run","Package":"m.org/r/p","Test":"TestA/b"}
{"Action":"output","Package":"m.org/r/p","Test":"TestA/b","Output":"    a.go:1: no\n"}
{"Action":"fail","Package":"m.org/r/p","Test":"TestA/b"}
{"Action":"fail","Package":"m.org/r/p","Test":"TestA"}
not JSON
{"Action":"pass","Package":"m.org/r","Test":"TestC"}`))
	check("go test", found, err, outcome{"p", "TestA/b", false, "a.go:1: no "}, outcome{".", "TestC", true, ""})
	found, err = readGoTest("m.org/r", []byte(`{"Action":"run","Package":"m.org/r","Test":"TestLeaks"}
{"Action":"run","Package":"m.org/r","Test":"TestLeaks/a"}
{"Action":"pass","Package":"m.org/r","Test":"TestLeaks/a"}
{"Action":"fail","Package":"m.org/r","Test":"TestLeaks"}
{"Action":"skip","Package":"m.org/r","Test":"TestSkips"}
{"Action":"run","Package":"m.org/r","Test":"TestPanics"}`))
	check("go test that panics", found, err, outcome{".", "TestLeaks", false, ""}, outcome{".", "TestLeaks/a", true, ""}, outcome{".", "TestPanics", false, "its process ended"})
	found, err = readJUnit([]byte(`<testsuites><testsuite><testcase classname="tests.test_x.TestA" name="test_b[1]"/>
		<testcase classname="tests.test_x" name="test_c"><failure message="no">x</failure></testcase>
		<testcase classname="tests.test_x" name="test_d"><skipped/></testcase></testsuite></testsuites>`))
	check("pytest", found, err, outcome{"tests.test_x", "TestA.test_b[1]", true, ""}, outcome{"tests.test_x", "test_c", false, "no"})
	found, err = readMocha("/x", "test/a.ts", []byte(`{"tests":[{"fullTitle":"a b","file":"/x/test/a.ts"},{"fullTitle":"a c","file":"/x/test/a.ts","err":{"message":"no"}},
		{"fullTitle":"a d","file":"/x/test/a.ts"}],"failures":[{"fullTitle":"a c","file":"/x/test/a.ts","err":{"message":"no"}},
		{"fullTitle":"a \"before each\" hook","err":{"message":"not there"}}],"pending":[{"fullTitle":"a d","file":"/x/test/a.ts"}]}`))
	check("Mocha", found, err, outcome{"test/a.ts", "a c", false, "no"}, outcome{"test/a.ts", `a "before each" hook`, false, "not there"}, outcome{"test/a.ts", "a b", true, ""})
	found = readResp("test: del command passed\ntest: rename failed\ntest: rename failed\ntest: x tags skipped\nFailedTest(name='rename', reason=A)\nFailedTest(name='rename', reason=B)\n")
	check("resp-compatibility", found, nil, outcome{"cts.json", "del command", true, ""}, outcome{"cts.json", "rename", false, "A"}, outcome{"cts.json", "rename (2)", false, "B"})
}

// TestSkipped: parts of the test whose reason says that they must not run, and of no other test.
func TestSkipped(t *testing.T) {
	list := []row{{".", "TestA/one", passes}, {".", "TestA/two", "no scripts"}, {".", "TestA/three+", notRun + "panics"}, {".", "TestAB/four", notRun + "panics"}, {".", "TestA", passes}}
	if got := skipped(rueidisParts(list, "TestA")); !slices.Equal(got, []string{`three\+`}) {
		t.Errorf("%q are not run, want three+ alone", got)
	}
}

// TestCompare runs comparisons that must fail, and a comparison that must not.
func TestCompare(t *testing.T) {
	list := []row{{"a", "one", passes}, {"a", "two", "no lists"}, {"a", "many*", "no sets"}, {"b.ts", "*", "no streams"}}
	good := []outcome{{"a", "one", true, ""}, {"a", "two", false, "x"}, {"a", "many x", false, "x"}, {"b.ts", "all", false, "x"}}
	if err := (options{}).compare("x", list, good); err != nil {
		t.Errorf("a run as the table says: %v", err)
	}
	for name, found := range map[string][]outcome{
		"a test that must pass fails":        append([]outcome{{"a", "one", false, "x"}}, good[1:]...),
		"a test that must pass does not run": good[1:],
		"a test without a row fails":         append([]outcome{{"a", "new", false, "x"}}, good...),
	} {
		if err := (options{}).compare("x", list, found); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	table := string(renew(newIndex(list), list, []outcome{{"a", "one", true, ""}, {"a", "new", false, "ERR unknown command 'lpush', with"}, {"a", "odd", false, "why"}}))
	want := "a\tmany*\tno sets\na\tnew\tneeds the command LPUSH, which counterd does not have\na\todd\t? why\na\tone\tpasses\na\ttwo\tno lists\nb.ts\t*\tno streams\n"
	if table != want {
		t.Errorf("the table of a run is\n%swant\n%s", table, want)
	}
}

// TestTables reads the tables: each test has one row, no reason is a question, and the documentation has the numbers of the tables.
func TestTables(t *testing.T) {
	page, err := os.ReadFile("../../../docs/internals/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, suite := range tables() {
		list, err := readList(suite, "")
		if err != nil || len(list) < 10 {
			t.Errorf("%s: %d rows, %v", suite, len(list), err)
		}
		seen, passing := map[row]bool{}, 0
		for _, l := range list {
			key := row{unit: l.unit, test: l.test}
			if seen[key] || strings.HasPrefix(l.what, "?") {
				t.Errorf("%s: %s, %q stands twice, or its reason is a question: %s", suite, l.unit, l.test, l.what)
			}
			seen[key] = true
			if l.what == passes {
				passing++
			}
		}
		if passing == 0 {
			t.Errorf("%s: no test passes", suite)
		}
		numbers := fmt.Sprintf(" | %d | %d |\n", passing, len(list)-passing)
		if _, line, ok := strings.Cut(string(page), "\n| `"+suite+"` |"); !ok || !strings.HasPrefix(line[strings.IndexByte(line, '\n')-len(numbers)+1:], numbers) {
			t.Errorf("docs/internals/testing.md: the row of %s must end in %q", suite, numbers)
		}
	}
}
