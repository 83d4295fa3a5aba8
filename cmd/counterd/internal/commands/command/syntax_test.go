package command

import (
	"strings"
	"testing"
)

// show writes arguments in one line, with types.
func show(args []Argument) string {
	parts := make([]string, len(args))
	for i, a := range args {
		s := a.Name + ":" + a.Kind
		if a.Token != "" {
			s = a.Token + "=" + s
		}
		if a.Optional {
			s += "?"
		}
		if a.Multiple {
			s += "+"
		}
		if a.Again {
			s += "+"
		}
		if len(a.Args) > 0 {
			s += "(" + show(a.Args) + ")"
		}
		parts[i] = s
	}
	return strings.Join(parts, " ")
}

func TestParseSyntax(t *testing.T) {
	for _, c := range []struct{ syntax, want string }{
		{"", ""},
		{"key", "key:key"},
		{"key increment", "key:key increment:integer"},
		{"key [key ...]", "key:key+"},
		{"[section [section ...]]", "section:string?+"},
		{"key value [key value ...]", "key_value:block+(key:key value:string)"},
		{"key field value [field value ...]", "key:key field_value:block+(field:string value:string)"},
		{"counter mid [mid ...]", "counter:string mid:integer+"},
		{"[NX | XX] [GET]", "nx_xx:oneof?(NX=nx:pure-token XX=xx:pure-token) GET=get:pure-token?"},
		{"cursor [MATCH pattern] [COUNT count]", "cursor:integer MATCH=pattern:pattern? COUNT=count:integer?"},
		{"[TYPE type] [ID client-id [client-id ...]]", "TYPE=type:string? ID=client-id:integer?+"},
		{"[SET column value [SET column value ...]]", "SET=column_value:block?++(column:string value:string)"},
		{"[RESET column [RESET column ...]] [DEL]", "RESET=column:string?++ DEL=del:pure-token?"},
		{"[WHERE column value [AND column value ...]]",
			"column_value_column_value:block?(WHERE=column_value:block(column:string value:string) AND=column_value:block?++(column:string value:string))"},
		{"[MID mid [AND MID mid ...]]", "mid_and_mid:block?(MID=mid:integer and_mid:block?+(AND=and:pure-token MID=mid:integer))"},
		{"[protover [AUTH username password] [SETNAME clientname]]",
			"protover_username_password_clientname:block?(protover:integer AUTH=username_password:block?(username:string password:string) SETNAME=clientname:string?)"},
		{"COUNTER counter | COLUMN counter name [max=bits]",
			"counter_counter_name_max=bits:oneof(COUNTER=counter:string counter_name_max=bits:block(COLUMN=counter_name:block(counter:string name:string) max=bits:string?))"},
		{"a b c d | e", "arguments_e:oneof(arguments:block(a:string b:string c:string d:string) e:string)"},
	} {
		args, err := ParseSyntax(c.syntax)
		if got := show(args); err != nil || got != c.want {
			t.Errorf("%q: got %s, %v, want %s", c.syntax, got, err, c.want)
		}
	}
	for _, bad := range []string{"[key", "key]", "[key ... key]", "...", "[...]", "[[key]"} {
		if args, err := ParseSyntax(bad); err == nil {
			t.Errorf("%q: got %s, want an error", bad, show(args))
		}
	}
}
