package acl

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/glob"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/schema"
)

type row = command.Row[int]

// rows are a few commands of each kind that rules make a difference by.
func rows() *command.Table[int] {
	read, write := command.ReadOnly|command.Fast, command.Write|command.Fast
	key := func(name string, f command.Flags) *row {
		return &row{Name: name, Arity: -2, Flags: f, First: 1, Last: 1, Step: 1, Group: "string"}
	}
	sub := func(name string, f command.Flags) *row { return &row{Name: name, Arity: -2, Flags: f, Group: "server"} }
	counter := &row{Name: "counter.find", Arity: -2, Flags: command.ReadOnly, Group: "counterd", Asks: command.AskCounter(1, command.NeedRead)}
	mset := &row{Name: "counter.mset", Arity: -4, Flags: command.Write, Group: "counterd", Asks: command.AskRows}
	return command.NewTable([]*row{
		mset,
		key("get", read), key("incr", write), key("set", write), key("del", write), counter,
		{Name: "mset", Arity: -3, Flags: write, First: 1, Last: -1, Step: 2, Group: "string"},
		{Name: "flushall", Arity: -1, Flags: command.Write, Group: "server", Asks: command.AskEverything(command.NeedWrite)},
		{Name: "forgot", Arity: -1, Flags: command.ReadOnly, Group: "server"},
		{Name: "select", Arity: 2, Flags: command.Fast, Group: "connection"},
		{Name: "auth", Arity: -2, Flags: command.Fast | command.NoAuth, Group: "connection"},
		{Name: "publish", Arity: 3, Flags: command.Fast | command.PubSub, Group: "pubsub"},
		{Name: "psubscribe", Arity: -2, Flags: command.PubSub, Group: "pubsub"},
		{Name: "config", Arity: -2, Group: "server", Sub: []*row{sub("config|get", command.Admin), sub("config|set", command.Admin)}},
	})
}

func newUsers() (*Users, *command.Table[int]) {
	t := rows()
	return NewUsers(NewCatalog(t.Access())), t
}

func testSchema(t testing.TB) *schema.Schema {
	t.Helper()
	s, err := schema.ParseScript(strings.NewReader("add counter weibo\nadd column weibo comment hint=16 suffix=cntcm\nadd column weibo repost hint=16 suffix=cntrn\n"+
		"add counter wide\nadd column wide big hint=16\nadd counter plain\nadd column plain v hint=16 suffix=\n"), schema.Empty())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func set(t testing.TB, us *Users, name, rules string) *User {
	t.Helper()
	u, err := us.Set(name, strings.Fields(rules))
	if err != nil {
		t.Fatalf("%s: %v", rules, err)
	}
	return u
}

// TestRules: the text that rules are kept as, in Redis's words, makes the same user again.
func TestRules(t *testing.T) {
	const pw = "#2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b" // secret
	for _, c := range []struct{ rules, want string }{
		{"", "off sanitize-payload resetchannels -@all"},
		{"on nopass ~* &* +@all", "on nopass sanitize-payload ~* &* +@all"},
		{"on >secret +get ~a ~b %R~c %W~c %R~d", "on sanitize-payload " + pw + " ~a ~b ~c %R~d resetchannels -@all +get"},
		{">secret >secret <secret", "off sanitize-payload resetchannels -@all"},
		{pw + " !" + pw[1:] + " >x nopass", "off nopass sanitize-payload resetchannels -@all"},
		{"nopass >secret", "off sanitize-payload " + pw + " resetchannels -@all"},
		{"+@all -@write +SET -get +get", "off sanitize-payload resetchannels +@all -@write +set +get"},
		{"+config|get +config", "off sanitize-payload resetchannels -@all +config"},
		{"+config -config|set", "off sanitize-payload resetchannels -@all +config -config|set"},
		{"+select|0 +select|1", "off sanitize-payload resetchannels -@all +select|0 +select|1"},
		{"+@all allkeys &a &b", "off sanitize-payload ~* resetchannels &a &b +@all"},
		{"+zadd -debug +script|kill +@sortedset", "off sanitize-payload resetchannels -@all +zadd -debug +script|kill +@sortedset"},
		{"-debug +debug|digest +debug|object", "off sanitize-payload resetchannels -@all -debug +debug|digest +debug|object"},
		{"( ~key2 +get ) (~key3 +get) ()", "off sanitize-payload resetchannels -@all (~key2 resetchannels -@all +get) (~key3 resetchannels -@all +get) (resetchannels -@all)"},
		{"+@all -@hash -@slow +get -@hash +@hash", "off sanitize-payload resetchannels +@all -@slow +get +@hash"},
		{"+config|get +config +config|set -config", "off sanitize-payload resetchannels -@all -config"},
		{"%R~foo %W~foo %RW~bar", "off sanitize-payload ~foo ~bar resetchannels -@all"},
		{"~a (+get ~b) (%R~c &x +@read)", "off sanitize-payload ~a resetchannels -@all (~b resetchannels -@all +get) (%R~c resetchannels &x -@all +@read)"},
		{"(+get ~b) clearselectors", "off sanitize-payload resetchannels -@all"},
		{"on nopass +@all ~* &* reset", "off sanitize-payload resetchannels -@all"},
		{"skip-sanitize-payload", "off skip-sanitize-payload resetchannels -@all"},
		{"+@all +@all resetkeys ~x allkeys", "off sanitize-payload ~* resetchannels +@all"},
	} {
		us, _ := newUsers()
		u := set(t, us, "u", c.rules)
		if got := u.Rights().String(); got != c.want {
			t.Errorf("%q:\n got %s\nwant %s", c.rules, got, c.want)
		}
		if again := set(t, us, "v", c.want); again.Rights().String() != c.want {
			t.Errorf("%q: made again: %s", c.rules, again.Rights())
		}
	}
}

// TestRulesRefused: a rule that is wrong changes nothing of the user, and no password is in its error.
func TestRulesRefused(t *testing.T) {
	us, _ := newUsers()
	u := set(t, us, "u", "on >secret ~a +get")
	before := u.Rights()
	for rules, want := range map[string]string{
		"+incr nosense": "Error in ACL SETUSER modifier 'n...': Syntax error", "+nosuch": "Unknown command or category name in ACL",
		"+@nosuch": "Unknown command", "+config|nosuch": "Unknown command", "-select|0": "Unknown command", "+config|get|x": "Unknown command",
		"+select|": "Syntax error", "+select|0|1": "Allowing first-arg of a subcommand is not supported", "allkeys ~b": "after the * pattern", "&* &b": "'allchannels' flag",
		"<hidden": "modifier '<...': The password you are trying to remove", "#abc": "modifier '#...': The password hash must be exactly 64",
		"#" + strings.Repeat("A", 64): "exactly 64", "%~x": "Syntax error", "%RR~x": "Syntax error", "%X~x": "Syntax error", "%R": "Syntax error",
		"(+get": "Unmatched parenthesis in acl selector starting at '(+get'", "(nosense)": "Syntax error", "(>hidden)": "modifier '(>...': Syntax error", "(~a hidden": "at '(~a'", "( hidden )": "modifier '(h... )': Syntax error", "+script|nosuch": "Unknown command", "(on)": "Syntax error", "(~a))": "cannot end with )",
		"~" + strings.Repeat("x", maxPattern+1): "at most", ">" + strings.Repeat("x", maxPasswordSize+1): "A password has at most",
	} {
		_, err := us.Set("u", strings.Fields(rules))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%.80s: got %v, want %s", rules, err, want)
		}
	}
	many := func(format string, n int) (rules []string) {
		for i := range n {
			rules = append(rules, fmt.Sprintf(format, i))
		}
		return rules
	}
	for want, rules := range map[string][]string{
		errManyPatterns.Error(): many("~k%d", maxPatterns+1), errManyPasswords.Error(): many(">p%d", maxPasswords+1),
		errManySelectors.Error(): many("(~k%d)", maxSelectors+1), errManyRules.Error(): many("+select|%d", maxRules+1),
	} {
		if _, err := us.Set("u", rules); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d rules: got %v, want %s", len(rules), err, want)
		}
	}
	for _, name := range []string{"", "a b", "a\x00", "\"a", "'", strings.Repeat("x", maxName+1)} {
		if _, err := us.Set(name, nil); err == nil {
			t.Errorf("%q is a user", name)
		}
	}
	if u.Rights() != before || len(us.All()) != 2 {
		t.Errorf("something has changed: %s", us.Lines())
	}
}

// TestCheck: which question has which answer.
func TestCheck(t *testing.T) {
	us, table := newUsers()
	sch := testSchema(t)
	for _, c := range []struct{ rules, commands, want string }{
		{"+@all ~* &*", "get x|flushall|config get|publish a b|forgot|counter.find weibo", "||||||"},
		{"", "get x|auth x|select 0", "command||command"},
		{"+get +incr ~weibo:*", "get weibo:7.cntcm|get 7.cntcm|get {7}.cntrn|get {weibo:7}.cntcm|incr 007.cntcm|get 7|get wide:7|get 7.big|get x", "||||||key 1|key 1|key 1"},
		{"+@all ~*.cntrn", "get 7.cntrn|get weibo:7.cntrn|get 7|get weibo:7|get 7.cntcm|counter.find weibo|flushall|forgot", "||key 1|key 1|key 1|key 1|key 0|key 0"},
		{"+@all ~weibo:*.cntrn", "get 7.cntrn|get weibo:7.cntrn|get {weibo:7}.cntrn|get 7.cntcm|get weibo:7|get 7.big|get wide:7.cntrn", "|||key 1|key 1|key 1|key 1"},
		{"+@all ~weibo:*", "counter.find weibo|counter.find wide|counter.find weib|flushall|forgot", "|key 1|key 1|key 0|key 0"},
		{"+@all ~weibo:* ~wide:* ~plain:*", "counter.find wide|flushall|forgot", "||"},
		{"+@all %R~weibo:* ~wide:*", "counter.find weibo|get 7|incr 7.cntcm|flushall|mset 7.big 1 8.cntcm 1", "||key 1|key 0|key 3"},
		{"+@all %W~weibo:*", "set 7.cntcm 1|set 7.cntcm 1 GET|get 7.cntcm|incr 7.cntcm", "|key 1|key 1|key 1"},
		{"+@all ~[wp]*:*", "counter.find weibo|counter.find wide|flushall|counter.find xs", "|||key 1"},
		{"+@all ~weibo:\\*", "counter.find weibo", "key 1"},
		{"+@all ~weibo:[*", "counter.find weibo", "key 1"},
		{"+@all ~weibo:1*", "counter.find weibo|get 1.cntcm|get 2.cntcm|get 12", "key 1||key 1|"},
		{"+@all ~weibo:[0-1]*", "get 1.cntcm|get 0.cntcm|get 05.cntcm|get weibo:05.cntcm|get weibo:{05}|get {weibo:05}|get weibo:0000000000000000000005", "||key 1|key 1|key 1|key 1|key 1"},
		{"+@all ~weibo:???", "get 123|get 0123|get 007|get weibo:007.cntcm|get weibo:07.cntcm|get weibo:0.c|get weibo:1.c", "||key 1|key 1|key 1||"},
		{"+@all ~0*", "get 0|get 05|get {05}.cntcm|get weibo:05.cntcm|get 0.big|get wide:0", "|key 1|key 1|key 1||key 1"},
		{"+@all ~{*", "get {7}.cntcm|get {weibo:7}|get {x", "key 1|key 1|"},
		{"+@all ~7", "get 7|get 007|get weibo:7.cntcm|get 7.big|get wide:7", "|||key 1|key 1"},
		{"+@all ~plain:7", "get plain:7|get plain:{07}|get plain:8|get 7", "||key 1|key 1"},
		{"+@all -@write ~*", "get x|set x 1|publish a b", "|command|channel 1"},
		{"+select|0", "select 0|select 1", "|command"},
		{"+config|get", "config get|config set", "|command"},
		{"+@all -config|set ~* &*", "config get|config set", "|command"},
		{"+@pubsub &news:* &x", "publish news:1 m|publish x m|publish y m|psubscribe news:*|psubscribe news:1|psubscribe x y", "||channel 1||channel 1|channel 2"},
		{"+get ~a (+incr ~b) (+@all ~c)", "get a|get b|incr b|incr a|del c|del a", "|key 1||key 1||key 1"},
		{"+@all -@all ~* &*", "get x", "command"},
		{"+@all ~*", "get " + strings.Repeat("x", 2000), ""},
		{"+@all ~*x*", "get " + strings.Repeat("x", 256) + "|get " + strings.Repeat("x", 257), "|key 1"},
	} {
		u := set(t, us, "u", "reset "+c.rules)
		wants := strings.Split(c.want, "|")
		for i, text := range strings.Split(c.commands, "|") {
			words := strings.Fields(text)
			args := make([][]byte, len(words))
			for i, w := range words {
				args[i] = []byte(w)
			}
			cmd := table.Find(args[0])
			if cmd.Sub != nil {
				cmd = cmd.Subcommand(args[1])
			}
			d := u.Check(cmd.Access(), args, sch)
			got := d.Reason.String()
			if d.Reason > DeniedCommand {
				got += fmt.Sprintf(" %d", d.At)
			}
			if got != wants[i] {
				t.Errorf("%s: %.60s: got %q, want %q", c.rules, text, got, wants[i])
			}
			if u.May(cmd.Access(), args, sch) && d.Reason != Allowed {
				t.Errorf("%s: %.60s: the short question is answered with yes, the long one with %v", c.rules, text, d)
			}
		}
	}
}

// TestCovers: a pattern that covers what begins with a prefix matches whatever comes behind it.
func TestCovers(t *testing.T) {
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	text := func(alphabet string, n int) string {
		b := make([]byte, rnd.IntN(n+1))
		for i := range b {
			b[i] = alphabet[rnd.IntN(len(alphabet))]
		}
		return string(b)
	}
	covered := 0
	for i := range 20000 {
		p := newPattern(text("ab*?[]^\\-", 6), 0)
		if i == 0 {
			p = newPattern("[b-]*", 0) // a class that is not closed: the range goes to the bracket
		}
		prefix := text("ab*", 3)
		if got := p.matches([]byte(prefix)); got != glob.Match(p.text, prefix) {
			t.Fatalf("%q and %q: %v, want Redis's answer", p.text, prefix, got)
		}
		if !p.covers([]byte(prefix)) {
			continue
		}
		covered++
		for range 20 {
			if name := prefix + text("ab*?[]^\\", 6); !p.matches([]byte(name)) {
				t.Fatalf("%q is said to match all that begins with %q, and does not match %q", p.text, prefix, name)
			}
		}
	}
	if covered < 200 {
		t.Errorf("only %d patterns covered anything", covered)
	}
}

// TestAuthenticate: which users are let in.
func TestAuthenticate(t *testing.T) {
	us, _ := newUsers()
	set(t, us, "on", "on >one >two")
	set(t, us, "off", ">one")
	set(t, us, "open", "on nopass")
	set(t, us, "none", "on")
	for _, c := range []struct {
		name, pass string
		want       bool
	}{
		{"on", "one", true}, {"on", "two", true}, {"on", "three", false}, {"on", "", false}, {"off", "one", false}, {"open", "x", true}, {"none", "", false},
		{"nobody", "", false}, {"ON", "one", false}, {"default", "x", true}, {"open", strings.Repeat("x", maxPasswordSize+1), false},
	} {
		if u := us.Authenticate([]byte(c.name), []byte(c.pass)); (u != nil) != c.want || u != nil && u.Name() != c.name {
			t.Errorf("%s with %.10q: got %v, want %v", c.name, c.pass, u, c.want)
		}
	}
	us.SetPassword("new")
	if us.Authenticate([]byte("default"), []byte("x")) != nil || us.Authenticate([]byte("default"), []byte("new")) == nil || us.Default().Open() || us.Plain("") || us.Plain("new") {
		t.Error("requirepass is not default's password")
	}
	u := us.Find("on")
	if _, err := us.Remove([]string{"on", "off", "open", "none", "nobody"}); err != nil || !us.Plain("new") {
		t.Errorf("%v: %s", err, us.Lines())
	}
	if !u.Gone() || u.Unlimited() || us.Authenticate([]byte("on"), []byte("one")) != nil {
		t.Error("a user that was removed is there")
	}
}

// TestLoadKeepsPassword: with a file that says nothing of default, requirepass holds still.
func TestLoadKeepsPassword(t *testing.T) {
	us, _ := newUsers()
	us.SetPassword("secret")
	load := func(text string) {
		t.Helper()
		if _, err := us.Load("file", text); err != nil {
			t.Fatal(err)
		}
	}
	lets := func(pass string) bool { return us.Authenticate([]byte(Default), []byte(pass)) != nil }
	load("user a on nopass +@all\n")
	if us.Default().Open() || lets("x") || !lets("secret") {
		t.Errorf("requirepass does not hold: %s", us.Lines())
	}
	load("user default on nopass\n") // by its own words
	if !us.Default().Open() {
		t.Errorf("the file does not hold: %s", us.Lines())
	}
	us.SetPassword("new") // CONFIG SET
	load("")
	if us.Default().Open() || lets("secret") || !lets("new") {
		t.Errorf("the new requirepass does not hold: %s", us.Lines())
	}
	us.SetPassword("")
	if load(""); !us.Default().Open() {
		t.Errorf("without requirepass: %s", us.Lines())
	}
}

// TestFile: a file is taken in whole or, with the lines named, not at all; saved users are read again.
func TestFile(t *testing.T) {
	us, _ := newUsers()
	a := set(t, us, "a", "on >x ~a +get")
	set(t, us, "b", "on nopass +@all")
	path := filepath.Join(t.TempDir(), "users.acl")
	if err := us.SaveFile(path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v: want a file for its owner alone", info.Mode(), err)
	}
	lines := us.Lines()
	set(t, us, "c", "on")
	set(t, us, "a", "resetkeys")
	removed, err := us.LoadFile(path)
	if err != nil || len(removed) != 1 || removed[0].Name() != "c" || !slices.Equal(us.Lines(), lines) || us.Find("a") != a {
		t.Errorf("%v %v\n%s", removed, err, us.Lines())
	}
	for text, want := range map[string]string{
		"user a on\nusr b\n": ":2: should start with user", "\n\nuser a +nosuch +get\n": ":3: Error in applying operation '+nosuch': Unknown",
		"user a >hidden hidden\n": ":1: Error in applying operation 'h...': Syntax error", "user a on\nuser a off\n": ":2: Duplicate user 'a'", "user a (+get\n": ":1: Error in applying operation '(+get': Unmatched",
		"# comment\n": ":1: should start", "user \"a on": ":1: a user name",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := us.LoadFile(path); err == nil || !strings.Contains(err.Error(), path+want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := us.LoadFile(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a file that all can read: %v", err)
	}
	if !slices.Equal(us.Lines(), lines) {
		t.Errorf("a file that was refused has changed users: %s", us.Lines())
	}
	if _, err := us.Load("f", ""); err != nil || !us.Plain("") || !us.Default().Open() {
		t.Errorf("an empty file: %v %s", err, us.Lines())
	}
}

// TestLog: like refusals are one entry, and there are never more than were asked for.
func TestLog(t *testing.T) {
	var l Log
	client := func() string { return "id=7" }
	l.Add(DeniedKey, "toplevel", "k", "u", client)
	if len(l.Newest(10)) != 0 || l.Denied[DeniedKey].Load() != 1 {
		t.Error("a log of no length has an entry, or the refusal was not counted")
	}
	l.SetMost(3)
	for range 5 {
		l.Add(DeniedKey, "toplevel", "k", "u", client)
	}
	l.Add(DeniedKey, "multi", "k", "u", client)
	l.Add(DeniedAuth, "toplevel", "AUTH", strings.Repeat("x", 9999), client)
	l.Add(DeniedKey, "toplevel", "k", "u", client)
	list := l.Newest(10)
	if len(list) != 3 || list[0].Count != 6 || list[0].ID != 0 || list[1].Reason != DeniedAuth || len(list[1].User) != maxName || list[0].Age() > time.Hour {
		t.Errorf("%+v", list)
	}
	for i := range 9 {
		l.Add(DeniedCommand, "toplevel", fmt.Sprint(i), "u", client)
	}
	if list := l.Newest(2); len(list) != 2 || list[0].Object != "8" || list[0].ID != 11 || len(l.Newest(10)) != 3 {
		t.Errorf("%+v", list)
	}
	l.Reset()
	if len(l.Newest(10)) != 0 {
		t.Error("a log that was reset has entries")
	}
}

// FuzzUsers: no file kills or hangs, and users are the same after they are written and read again.
func FuzzUsers(f *testing.F) {
	for _, seed := range []string{"user a on >x ~a* +get", "user a (+get ~a) %R~x &y", "user default off\nuser b nopass +@all -@write +select|0", "user a +zadd -script|kill #" + strings.Repeat("a", 64), "user a ~[ ~\\ ~* &*", "user 0 (&0\xff))"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		us, table := newUsers()
		if _, err := us.Load("f", text); err != nil {
			if !us.Plain("") {
				t.Fatalf("%q was refused and changed users: %s", text, us.Lines())
			}
			return
		}
		lines := us.Lines()
		if _, err := us.Load("f", strings.Join(lines, "\n")); err != nil || !slices.Equal(us.Lines(), lines) {
			t.Fatalf("%q:\n got %q, %v\nwant %q", text, us.Lines(), err, lines)
		}
		sch := testSchema(t)
		for _, u := range us.All() {
			table.Each(func(cmd *row) {
				args := [][]byte{[]byte("x"), []byte(text), []byte("y")}
				if u.May(cmd.Access(), args, sch) && u.Check(cmd.Access(), args, sch).Reason != Allowed {
					t.Fatalf("%q: %s: two answers", text, cmd.Name)
				}
			})
		}
	})
}

// TestSpellings: a user's rights on a post do not depend on how its key is written, and MSET needs the same
// rights as COUNTER.MSET.
func TestSpellings(t *testing.T) {
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	sch := testSchema(t)
	us, table := newUsers()
	alphabet := []string{"weibo", "wide", "plain", ":", ":", ":", "0", "1", "7", "00", "?", "*", "[0-1]", "{", "}", ".", ".cntcm", ".big", "cnt*"}
	allowed := 0
	for range 3000 {
		pattern := ""
		for range 1 + rnd.IntN(4) {
			pattern += alphabet[rnd.IntN(len(alphabet))]
		}
		u := set(t, us, "u", "reset +@all ~"+pattern)
		may := func(command string, words ...string) bool {
			args := [][]byte{[]byte(command)}
			for _, w := range words {
				args = append(args, []byte(w))
			}
			return u.Check(table.Find(args[0]).Access(), args, sch).Reason == Allowed
		}
		counter := sch.Counters()[rnd.IntN(3)]
		mid := []uint64{0, 1, 7, 10, 107, 1 << 40}[rnd.IntN(6)]
		zeros := strings.Repeat("0", 1+rnd.IntN(4))
		for _, suffix := range []string{"", counter.Columns[0].Suffix} {
			if suffix != "" {
				suffix = "." + suffix
			}
			spellings := []string{"%s:%d%s", "%s:" + zeros + "%d%s", "%s:{%d}%s", "{%s:%d}%s", "{%s:" + zeros + "%d}%s"}
			want := may("get", fmt.Sprintf(spellings[0], counter.Name, mid, suffix))
			var keys []string
			for _, s := range spellings[1:] {
				keys = append(keys, fmt.Sprintf(s, counter.Name, mid, suffix))
			}
			if counter.Name == "weibo" || suffix != "" {
				keys = append(keys, fmt.Sprintf("%d%s", mid, suffix), fmt.Sprintf("%s%d%s", zeros, mid, suffix), fmt.Sprintf("{%d}%s", mid, suffix))
			}
			for _, key := range keys {
				if got := may("get", key); got != want {
					t.Fatalf("~%s: %s is allowed: %v, and %s:%d%s: %v", pattern, key, got, counter.Name, mid, suffix, want)
				}
			}
			if suffix != "" {
				if got := may("counter.mset", counter.Name, zeros+fmt.Sprint(mid), "5", "COLUMNS", counter.Columns[0].Name); got != want {
					t.Fatalf("~%s: COUNTER.MSET of %s:%d%s is allowed: %v, and MSET: %v", pattern, counter.Name, mid, suffix, got, want)
				}
			}
			if want {
				allowed++
			}
		}
	}
	if allowed < 100 {
		t.Errorf("only %d posts were allowed", allowed)
	}
}
