package server

import (
	"slices"
	"strings"
	"testing"
)

// TestCommandEntries checks each entry of COMMAND: ten elements, and key specifications that say the same as the old fields.
func TestCommandEntries(t *testing.T) {
	s := wireServe(t, nil)
	for _, proto := range []int{2, 3} {
		c := wireDial(t, s, proto)
		set := byte('*')
		if proto == 3 {
			set = '~'
		}
		statuses := func(v wireValue, prefix string) {
			t.Helper()
			if v.kind != set {
				t.Fatalf("%v is no set", v)
			}
			for _, f := range v.list {
				if f.kind != '+' || !strings.HasPrefix(f.text, prefix) {
					t.Fatalf("%v in %v, want simple strings", f, v)
				}
			}
		}
		var entry func(v wireValue)
		entry = func(v wireValue) {
			if len(v.list) != 10 {
				t.Fatalf("%v has %d elements, want 10", v, len(v.list))
			}
			l := v.list
			statuses(l[2], "")
			statuses(l[6], "@")
			for _, i := range []int{1, 3, 4, 5} {
				if l[i].kind != ':' {
					t.Fatalf("element %d is %v", i, l[i])
				}
			}
			if l[0].kind != '$' || l[7].kind != set || l[8].kind != set || l[9].kind != '*' {
				t.Fatalf("wrong kinds in %v", v)
			}
			if (l[3].n > 0) != (len(l[8].list) == 1) {
				t.Fatalf("key specification of %v", v)
			}
			for _, spec := range l[8].list {
				statuses(spec.get(t, "flags"), "")
				find := spec.get(t, "find_keys").get(t, "spec")
				last := find.get(t, "lastkey").n
				if last >= 0 {
					last += l[3].n
				}
				if spec.get(t, "begin_search").get(t, "spec").get(t, "index").n != l[3].n || last != l[4].n || find.get(t, "keystep").n != l[5].n {
					t.Fatalf("key specification %v of %v", spec, v)
				}
			}
			for _, sub := range l[9].list {
				if !strings.HasPrefix(sub.list[0].text, l[0].text+"|") {
					t.Fatalf("%v in %v", sub.list[0], l[0])
				}
				entry(sub)
			}
		}
		all := c.do("COMMAND")
		for _, v := range all.list {
			entry(v)
		}
		if n := c.do("COMMAND COUNT").n; n != int64(len(all.list)) || n != int64(len(s.commands.list)) {
			t.Errorf("COMMAND COUNT is %d, COMMAND has %d", n, len(all.list))
		}
		if got := c.do("COMMAND INFO"); len(got.list) != len(all.list) {
			t.Errorf("COMMAND INFO has %d", len(got.list))
		}
		info := c.do("COMMAND INFO get nosuch Config|Get config|nosuch")
		if len(info.list) != 4 || info.list[0].list[0].text != "get" || !info.list[1].null || info.list[2].list[0].text != "config|get" || !info.list[3].null {
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
		c.want("COMMAND GETKEYS ping", "-ERR wrong number of arguments for 'command|getkeys' command")
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
		if !slices.ContainsFunc(list.list, func(v wireValue) bool { return v.text == name }) {
			t.Errorf("COMMAND LIST lacks %s", name)
		}
	}
}

// TestCommandDocs checks what redis-cli asserts: bulk strings everywhere but in flags, which must be simple ones.
func TestCommandDocs(t *testing.T) {
	s := wireServe(t, nil)
	for _, proto := range []int{2, 3} {
		c := wireDial(t, s, proto)
		var argument func(v wireValue)
		argument = func(v wireValue) {
			for i := 0; i < len(v.list); i += 2 {
				key, value := v.list[i], v.list[i+1]
				switch key.text {
				case "name", "type", "token":
					if value.kind != '$' || value.text == "" {
						t.Fatalf("%s is %v in %v", key.text, value, v)
					}
				case "key_spec_index":
					if value.kind != ':' {
						t.Fatalf("%v in %v", value, v)
					}
				case "flags":
					for _, f := range value.list {
						if f.kind != '+' || f.text != "optional" && f.text != "multiple" {
							t.Fatalf("flag %v in %v", f, v)
						}
					}
				case "arguments":
					for _, a := range value.list {
						argument(a)
					}
				default:
					t.Fatalf("%s in %v", key, v)
				}
			}
			switch kind := v.get(t, "type").text; kind {
			case "key", "string", "integer", "pattern", "unix-time":
			case "pure-token":
				v.get(t, "token")
			case "oneof", "block":
				v.get(t, "arguments")
			default:
				t.Fatalf("type %s in %v", kind, v)
			}
		}
		var docs func(v wireValue) int
		docs = func(v wireValue) (n int) {
			if want := map[int]byte{2: '*', 3: '%'}[proto]; v.kind != want || len(v.list)%2 != 0 {
				t.Fatalf("%v is no map", v)
			}
			for i := 0; i < len(v.list); i += 2 {
				n++
				doc := v.list[i+1]
				for _, key := range []string{"summary", "since", "group", "complexity"} {
					if value := doc.get(t, key); value.kind != '$' || value.text == "" {
						t.Fatalf("%s of %v is %v", key, v.list[i], value)
					}
				}
				for j := 8; j < len(doc.list); j += 2 {
					switch doc.list[j].text {
					case "arguments":
						for _, a := range doc.list[j+1].list {
							argument(a)
						}
					case "subcommands":
						n += docs(doc.list[j+1])
					default:
						t.Fatalf("%v in %v", doc.list[j], doc)
					}
				}
			}
			return n
		}
		want := 0
		s.commands.each(func(*command) { want++ })
		if got := docs(c.do("COMMAND DOCS")); got != want {
			t.Errorf("COMMAND DOCS has %d, want %d", got, want)
		}
		if got := docs(c.do("COMMAND DOCS nosuch GET config|get client|nosuch")); got != 2 {
			t.Errorf("%d, want 2", got)
		}
	}
	wireDial(t, s, 3).want("COMMAND DOCS mset", `("mset" ("summary" "Sets several counters. Nothing is set if a key or value is wrong." "since" "1.0.1" "group" "string" `+
		`"complexity" "O(N)" "arguments" [("name" "key_value" "type" "block" "flags" {+multiple} "arguments" [("name" "key" "type" "key" "key_spec_index" :0) `+
		`("name" "value" "type" "string")])]))`)
}
