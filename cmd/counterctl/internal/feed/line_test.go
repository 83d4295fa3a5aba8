package feed

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/feedjoin"
)

// rule is a schema of JSON, with the keywords that the schema of a line uses.
type rule struct {
	Type       string          `json:"type"`
	Const      string          `json:"const"`
	Enum       []string        `json:"enum"`
	Pattern    string          `json:"pattern"`
	MaxLength  int             `json:"maxLength"`
	Required   []string        `json:"required"`
	Properties map[string]rule `json:"properties"`
	Additional *rule           `json:"additionalProperties"`
	Items      *rule           `json:"items"`
	OneOf      []rule          `json:"oneOf"`

	Schema string `json:"$schema"`
	Title  string `json:"title"`
}

// check says where a value breaks the rule; empty: nowhere.
func (r *rule) check(v any) string {
	var kind string
	text, _ := v.(string)
	switch v := v.(type) {
	case string:
		kind = "string"
	case json.Number:
		if _, err := v.Int64(); err == nil {
			kind = "integer"
		}
	case bool:
		kind = "boolean"
	case []any:
		kind = "array"
		for _, e := range v {
			if wrong := r.Items.check(e); wrong != "" {
				return wrong
			}
		}
	case map[string]any:
		kind = "object"
		if wrong := r.object(v); wrong != "" {
			return wrong
		}
	}
	switch {
	case r.Type != "" && r.Type != kind, r.Const != "" && r.Const != text, r.Enum != nil && !slices.Contains(r.Enum, text),
		r.Pattern != "" && !regexp.MustCompile(r.Pattern).MatchString(text), r.MaxLength > 0 && len(text) > r.MaxLength:
		return fmt.Sprintf("%v is not %+v", v, r)
	}
	if r.OneOf == nil {
		return ""
	}
	fits := slices.DeleteFunc(slices.Clone(r.OneOf), func(one rule) bool { return one.check(v) != "" })
	if len(fits) != 1 {
		return fmt.Sprintf("%v fits %d of the rules", v, len(fits))
	}
	return ""
}

func (r *rule) object(fields map[string]any) string {
	for _, name := range r.Required {
		if fields[name] == nil {
			return name + " is missing"
		}
	}
	for name, v := range fields {
		inner, known := r.Properties[name]
		if !known && r.Additional != nil {
			inner, known = *r.Additional, true
		}
		if !known && r.Properties != nil {
			return name + " is not in the schema"
		}
		if wrong := inner.check(v); wrong != "" {
			return name + ": " + wrong
		}
	}
	return ""
}

// lineSchema reads the schema file of the documentation.
func lineSchema(t *testing.T) *rule {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/reference/feed-json.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	r := new(rule)
	if err := decoder.Decode(r); err != nil {
		t.Fatal(err)
	}
	return r
}

// checkLine holds a line against the schema, and returns its fields.
func checkLine(t *testing.T, r *rule, line string) map[string]any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(line))
	decoder.UseNumber()
	var fields map[string]any
	if err := decoder.Decode(&fields); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if wrong := r.check(fields); wrong != "" {
		t.Errorf("%s: %s", line, wrong)
	}
	return fields
}

// TestLines: the lines of a reply with each kind of part are as the schema in the documentation says, and have the bytes of the reply.
func TestLines(t *testing.T) {
	schema := lineSchema(t)
	const position = "1-00112233445566aa-0-100+12-3f2a"
	bulk := func(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }
	text := "*2\r\n" + bulk("1-00112233445566aa-0-200-3f2a") + "*1\r\n*4\r\n" + bulk(position) + ":1795200000123\r\n*15\r\n" +
		"*7\r\n" + bulk("set") + bulk("weibo") + ":9223372036854775807\r\n" + bulk("comment") + ":5\r\n" + bulk("a\"b") + ":-1\r\n" +
		"*3\r\n" + bulk("set") + bulk("weibo") + ":3\r\n" +
		"*3\r\n" + bulk("del") + bulk("weibo") + ":7\r\n" +
		"*6\r\n" + bulk("set") + bulk("weibo") + ":3\r\n" + bulk("comment") + ":5\r\n" + "*2\r\n" + bulk("comment") + ":4\r\n" +
		"*6\r\n" + bulk("set") + bulk("weibo") + ":3\r\n" + bulk("comment") + ":5\r\n" + "*0\r\n" +
		"*6\r\n" + bulk("set") + bulk("weibo") + ":3\r\n" + bulk("comment") + ":5\r\n" + "*-1\r\n" +
		"*4\r\n" + bulk("del") + bulk("weibo") + ":7\r\n" + "*4\r\n" + bulk("comment") + ":5\r\n" + bulk("repost") + ":0\r\n" +
		"*4\r\n" + bulk("del") + bulk("weibo") + ":7\r\n" + "*-1\r\n" +
		"*1\r\n" + bulk("flush") +
		"*4\r\n" + bulk("drop") + bulk("weibo") + bulk("0") + bulk("9223372036854775808") +
		"*5\r\n" + bulk("drop") + bulk("weibo") + bulk("7") + bulk("8") + bulk("0-3") +
		"*2\r\n" + bulk("schema") + bulk("add \"x\"\n\u2028") +
		"*3\r\n" + bulk("gain") + bulk("m1") + bulk("0-3") +
		"*5\r\n" + bulk("gain") + bulk("m3") + bulk("5") + ":2\r\n:77\r\n" +
		"*3\r\n" + bulk("lose") + bulk("m2") + bulk("4") +
		"*2\r\n" + bulk("a newer node") + ":1\r\n"
	r := scripted(t, text)
	reply, err := r.Read(t.Context(), feedjoin.Oldest)
	if err != nil {
		t.Fatal(err)
	}
	if reply.Next != "1-00112233445566aa-0-200-3f2a" || len(reply.Changes) != 1 || reply.Changes[0].Position != position ||
		!slices.Equal(reply.Changes[0].Gains, []feedjoin.Gain{{From: 2, Offset: 77}}) {
		t.Fatalf("got %+v", reply)
	}
	f := &feeder{}
	f.lines(&feedjoin.Batch[[]byte]{Changes: reply.Changes})
	if b := f.batch; len(b.Changes) != 1 || b.Changes[0].Position != position || b.Changes[0].End != len(b.Text) {
		t.Fatalf("got %+v", b)
	}
	got := checkLine(t, schema, string(f.batch.Line(0)))
	want := map[string]any{"position": position, "time": json.Number("1795200000123"), "parts": []any{
		map[string]any{"kind": "set", "counter": "weibo", "mid": "9223372036854775807", "values": map[string]any{"comment": json.Number("5"), "a\"b": json.Number("-1")}},
		map[string]any{"kind": "set", "counter": "weibo", "mid": "3", "values": map[string]any{}},
		map[string]any{"kind": "del", "counter": "weibo", "mid": "7"},
		map[string]any{"kind": "set", "counter": "weibo", "mid": "3", "values": map[string]any{"comment": json.Number("5")}, "old": map[string]any{"comment": json.Number("4")}},
		map[string]any{"kind": "set", "counter": "weibo", "mid": "3", "values": map[string]any{"comment": json.Number("5")}, "old": map[string]any{}},
		map[string]any{"kind": "set", "counter": "weibo", "mid": "3", "values": map[string]any{"comment": json.Number("5")}},
		map[string]any{"kind": "del", "counter": "weibo", "mid": "7", "old": map[string]any{"comment": json.Number("5"), "repost": json.Number("0")}},
		map[string]any{"kind": "del", "counter": "weibo", "mid": "7"},
		map[string]any{"kind": "flush"},
		map[string]any{"kind": "drop", "counter": "weibo", "from": "0", "to": "9223372036854775808"},
		map[string]any{"kind": "drop", "counter": "weibo", "from": "7", "to": "8", "groups": "0-3"},
		map[string]any{"kind": "schema", "schema": "add \"x\"\n\u2028"},
		map[string]any{"kind": "gain", "move": "m1", "groups": "0-3"},
		map[string]any{"kind": "gain", "move": "m3", "groups": "5", "shard": json.Number("2"), "offset": json.Number("77")},
		map[string]any{"kind": "lose", "move": "m2", "groups": "4"},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	f.lines(&feedjoin.Batch[[]byte]{Shard: 2, Head: "c1,2=", Changes: reply.Changes, Tail: ",3=" + position})
	if got := checkLine(t, schema, string(f.batch.Line(0))); got["position"] != "c1,2="+position+",3="+position || got["shard"] != json.Number("2") || f.batch.Position() != got["position"] {
		t.Errorf("of a cluster: got %v", got)
	}
	numbered := func(fields string) map[string]any {
		reply, err := scripted(t, "*2\r\n"+bulk("1-00112233445566aa-0-200-3f2a")+"*1\r\n*5\r\n"+bulk(position)+":1\r\n*1\r\n*1\r\n"+bulk("flush")+fields).Read(t.Context(), feedjoin.Oldest)
		if err != nil {
			t.Fatal(err)
		}
		f.lines(&feedjoin.Batch[[]byte]{Changes: reply.Changes})
		return checkLine(t, schema, string(f.batch.Line(0)))
	}
	for fields, want := range map[string][2]any{
		bulk("app\"1") + ":42\r\n":                   {"app\"1", "42"},
		bulk("app-1") + bulk("18446744073709551615"): {"app-1", "18446744073709551615"},
		"$-1\r\n$-1\r\n":                             {nil, nil},
	} {
		if got := numbered(fields); got["producer"] != want[0] || got["seq"] != want[1] {
			t.Errorf("%q: got %v, want %v", fields, got, want)
		}
	}
	merged := &feeder{Options: Options{Latest: true, Old: true}}
	merged.lines(&feedjoin.Batch[[]byte]{Changes: []change{reply.Changes[0], reply.Changes[0]}})
	for i, more := range []any{true, nil} {
		if got := checkLine(t, schema, string(merged.batch.Line(i))); got["more"] != more || !merged.batch.Whole {
			t.Errorf("line %d of 2 that belong together: got %v", i+1, got)
		}
	}
	f.mark(position)
	checkLine(t, schema, string(f.batch.Line(0)))
	for _, wrong := range []string{`{"position":"1-00112233445566aa-0-1-3f2a","time":1,"parts":[{"kind":"set"}]}`, `{"time":1,"parts":[]}`, `{"position":"1-00112233445566aa-0-1-3f2a","time":1.5,"parts":[]}`} {
		var fields map[string]any
		decoder := json.NewDecoder(strings.NewReader(wrong))
		decoder.UseNumber()
		if err := decoder.Decode(&fields); err != nil || schema.check(fields) == "" {
			t.Errorf("the schema lets %s pass: %v", wrong, err)
		}
	}
}
