// Scenario: COMMAND and COMMAND DOCS describe every command as Redis does.

package server

import (
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/resptest"
)

// TestCommandEntries checks each entry of COMMAND: ten elements, and key specifications that say the same as the old
// fields.
func TestCommandEntries(t *testing.T) {
	s := wireServe(t, nil)
	for _, proto := range []int{2, 3} {
		c := wireDial(t, s, proto)
		set := byte('*')
		if proto == 3 {
			set = '~'
		}
		statuses := func(v resptest.Value, prefix string) {
			t.Helper()
			if v.Kind != set {
				t.Fatalf("%v is no set", v)
			}
			for _, f := range v.List {
				if f.Kind != '+' || !strings.HasPrefix(f.Text, prefix) {
					t.Fatalf("%v in %v, want simple strings", f, v)
				}
			}
		}
		var entry func(v resptest.Value)
		entry = func(v resptest.Value) {
			if len(v.List) != 10 {
				t.Fatalf("%v has %d elements, want 10", v, len(v.List))
			}
			l := v.List
			statuses(l[2], "")
			statuses(l[6], "@")
			for _, i := range []int{1, 3, 4, 5} {
				if l[i].Kind != ':' {
					t.Fatalf("element %d is %v", i, l[i])
				}
			}
			if l[0].Kind != '$' || l[7].Kind != set || l[8].Kind != set || l[9].Kind != '*' {
				t.Fatalf("wrong kinds in %v", v)
			}
			if (l[3].N > 0) != (len(l[8].List) == 1) {
				t.Fatalf("key specification of %v", v)
			}
			for _, spec := range l[8].List {
				statuses(spec.Get(t, "flags"), "")
				find := spec.Get(t, "find_keys").Get(t, "spec")
				last := find.Get(t, "lastkey").N
				if last >= 0 {
					last += l[3].N
				}
				if spec.Get(t, "begin_search").Get(t, "spec").Get(t, "index").N != l[3].N || last != l[4].N || find.Get(t, "keystep").N != l[5].N {
					t.Fatalf("key specification %v of %v", spec, v)
				}
			}
			for _, sub := range l[9].List {
				if !strings.HasPrefix(sub.List[0].Text, l[0].Text+"|") {
					t.Fatalf("%v in %v", sub.List[0], l[0])
				}
				entry(sub)
			}
		}
		all := c.do("COMMAND")
		for _, v := range all.List {
			entry(v)
		}
		if n := c.do("COMMAND COUNT").N; n != int64(len(all.List)) || n != int64(len(s.commands.List)) {
			t.Errorf("COMMAND COUNT is %d, COMMAND has %d", n, len(all.List))
		}
		if got := c.do("COMMAND INFO"); len(got.List) != len(all.List) {
			t.Errorf("COMMAND INFO has %d", len(got.List))
		}
		info := c.do("COMMAND INFO get nosuch Config|Get config|nosuch")
		if len(info.List) != 4 || info.List[0].List[0].Text != "get" || !info.List[1].Null || info.List[2].List[0].Text != "config|get" || !info.List[3].Null {
			t.Errorf("COMMAND INFO: %v", info)
		}
		c.want("COMMAND LIST FILTERBY PATTERN *client|get*", `["client|getname" "client|getredir"]`)
		c.want("COMMAND LIST FILTERBY MODULE x", "[]")
		c.want("COMMAND LIST FILTERBY ACLCAT nosuch", "[]")
		c.want("COMMAND LIST FILTERBY foo x", "-ERR syntax error")
		c.want("COMMAND LIST foo", "-ERR syntax error")
		c.want("COMMAND GETKEYS mset a b c d", `["a" "c"]`)
		c.want("COMMAND GETKEYS counter.mincrby 1.a 5 2.b 6", `["1.a" "2.b"]`)
		c.want("COMMAND GETKEYS memory usage a", `["a"]`)
		c.want("COMMAND GETKEYS ping a", "-ERR The command has no key arguments")
		c.want("COMMAND GETKEYS nosuch a", "-ERR Invalid command specified")
		c.want("COMMAND GETKEYS config nosuch", "-ERR Invalid command specified")
		c.want("COMMAND GETKEYS set a", "-ERR Invalid number of arguments specified for command")
		c.want("COMMAND GETKEYS ping", "-ERR wrong number of arguments for 'command|getkeys' command (usage: COMMAND GETKEYS command argument [argument ...])")
		c.want("COMMAND FOO", "-ERR unknown subcommand 'FOO'. Try COMMAND HELP.")
		c.want("ACL CAT nosuch", "-ERR Unknown category 'nosuch'")
		c.want("ACL CAT transaction", `["multi" "exec" "discard" "watch" "unwatch"]`)
		c.want("ACL WHOAMI", `"default"`)
	}
	c := wireDial(t, s, 2)
	c.want("COMMAND GETKEYSANDFLAGS get a", `[["a" [+RO +access]]]`)
	wireDial(t, s, 3).want("COMMAND GETKEYSANDFLAGS del a b", `[["a" {+RM +delete}] ["b" {+RM +delete}]]`)
	list := c.do("COMMAND LIST")
	for _, name := range []string{"add", "drop", "schema", "counter.mget", "counter.mincrby", "client|kill"} {
		if !slices.ContainsFunc(list.List, func(v resptest.Value) bool { return v.Text == name }) {
			t.Errorf("COMMAND LIST lacks %s", name)
		}
	}
}

// TestCommandDocs checks what redis-cli asserts: bulk strings everywhere but in flags, which must be simple ones.
func TestCommandDocs(t *testing.T) {
	s := wireServe(t, nil)
	for _, proto := range []int{2, 3} {
		c := wireDial(t, s, proto)
		var argument func(v resptest.Value)
		argument = func(v resptest.Value) {
			for i := 0; i < len(v.List); i += 2 {
				key, value := v.List[i], v.List[i+1]
				switch key.Text {
				case "name", "type", "token":
					if value.Kind != '$' || value.Text == "" {
						t.Fatalf("%s is %v in %v", key.Text, value, v)
					}
				case "key_spec_index":
					if value.Kind != ':' {
						t.Fatalf("%v in %v", value, v)
					}
				case "flags":
					for _, f := range value.List {
						if f.Kind != '+' || !slices.Contains([]string{"optional", "multiple", "multiple_token"}, f.Text) {
							t.Fatalf("flag %v in %v", f, v)
						}
					}
				case "arguments":
					for _, a := range value.List {
						argument(a)
					}
				default:
					t.Fatalf("%s in %v", key, v)
				}
			}
			switch kind := v.Get(t, "type").Text; kind {
			case "key", "string", "integer", "pattern", "unix-time":
			case "pure-token":
				v.Get(t, "token")
			case "oneof", "block":
				v.Get(t, "arguments")
			default:
				t.Fatalf("type %s in %v", kind, v)
			}
		}
		var docs func(v resptest.Value) int
		docs = func(v resptest.Value) (n int) {
			if want := map[int]byte{2: '*', 3: '%'}[proto]; v.Kind != want || len(v.List)%2 != 0 {
				t.Fatalf("%v is no map", v)
			}
			for i := 0; i < len(v.List); i += 2 {
				n++
				doc := v.List[i+1]
				for _, key := range []string{"summary", "since", "group", "complexity"} {
					if value := doc.Get(t, key); value.Kind != '$' || value.Text == "" {
						t.Fatalf("%s of %v is %v", key, v.List[i], value)
					}
				}
				for j := 8; j < len(doc.List); j += 2 {
					switch doc.List[j].Text {
					case "arguments":
						for _, a := range doc.List[j+1].List {
							argument(a)
						}
					case "subcommands":
						n += docs(doc.List[j+1])
					default:
						t.Fatalf("%v in %v", doc.List[j], doc)
					}
				}
			}
			return n
		}
		want := 0
		s.commands.Each(func(*row) { want++ })
		if got := docs(c.do("COMMAND DOCS")); got != want {
			t.Errorf("COMMAND DOCS has %d, want %d", got, want)
		}
		if got := docs(c.do("COMMAND DOCS nosuch GET config|get client|nosuch")); got != 2 {
			t.Errorf("%d, want 2", got)
		}
	}
	wireDial(t, s, 3).want("COMMAND DOCS mset", `("mset" ("summary" "Sets several counters as one change. An invalid key or value changes nothing." "since" "1.0.1" "group" "string" `+
		`"complexity" "O(N)" "arguments" [("name" "key_value" "type" "block" "flags" {+multiple} "arguments" [("name" "key" "type" "key" "key_spec_index" :0) `+
		`("name" "value" "type" "string")]) ("name" "producer_seq_epoch" "type" "block" "flags" {+optional} "arguments" [`+
		`("name" "producer_seq" "type" "block" "token" "IDMP" "arguments" [("name" "producer" "type" "string") ("name" "seq" "type" "string")]) `+
		`("name" "epoch" "type" "string" "token" "EPOCH" "flags" {+optional})])]))`)
}
