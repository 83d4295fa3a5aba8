package mapping

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/counterd/counterd/schema"
)

const script = `add column weibo mid hint=64 max=64 primarykey
add counter weibo
add column weibo comment hint=16 max=32 suffix=cntcm
add column weibo repost hint=16 max=32 suffix=cntrn
add column weibo attitude hint=8 max=16 suffix=cntan
add counter video
add column video plays hint=8 max=64 suffix=
`

func testSchema(t testing.TB) *schema.Schema {
	t.Helper()
	s, err := schema.ParseScript(strings.NewReader(script), schema.Empty())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// show writes items as "counter.column mid=value".
func show(r *Rules, items []Item) string {
	var list []string
	for _, i := range items {
		list = append(list, fmt.Sprintf("%s %d=%d", r.Columns()[i.Column].Name(), i.Mid, i.Value))
	}
	return strings.Join(list, ", ")
}

// skips writes a tally as "reason: examples".
func skips(t *Tally) string {
	var list []string
	for _, s := range t.List() {
		list = append(list, fmt.Sprintf("%d %s: %s", s.Count, s.Reason, strings.Join(s.Examples, "; ")))
	}
	return strings.Join(list, " | ")
}

// TestMap: a key with its value, or field and value, under rules.
func TestMap(t *testing.T) {
	tests := []struct{ rules, key, field, value, items, skipped string }{
		{"post:{mid}:likes=weibo.attitude", "post:12:likes", "", "34", "weibo.attitude 12=34", ""},
		{"post:{mid}:likes=weibo.cntan", "post:0012:likes", "", "0", "weibo.attitude 12=0", ""},
		{"post:{mid}:likes=weibo.attitude", "post:9223372036854775807:likes", "", "65535", "weibo.attitude 9223372036854775807=65535", ""},
		{"post:{mid}:likes=weibo.attitude", "post:9223372036854775808:likes", "", "1", "", "1 id out of range: post:9223372036854775808:likes"},
		{"post:{mid}:likes=weibo.attitude", "post:1:likes", "", "65536", "", "1 more than the column holds: post:1:likes = 65536"},
		{"post:{mid}:likes=weibo.attitude", "post:1:likes", "", "-1", "", "1 below 0: post:1:likes = -1"},
		{"post:{mid}:likes=weibo.attitude", "post:1:likes", "", "-0", "weibo.attitude 1=0", ""},
		{"post:{mid}:likes=weibo.attitude", "post:1:likes", "", "1.5", "", "1 not a whole number: post:1:likes = 1.5"},
		{"post:{mid}:likes=weibo.attitude", "post:1:likes", "", "\x00\xff", "", `1 not a whole number: post:1:likes = "\x00\xff"`},
		{"post:{mid}:likes=weibo.attitude", "post:1:likes", "", strings.Repeat("9", 80), "", "1 more than the column holds: post:1:likes = " + strings.Repeat("9", 64) + "... (80 bytes)"},
		{"post:{mid}:likes=weibo.attitude", "post::likes", "", "1", "", "1 no rule for the key: post::likes"},
		{"post:{mid}:likes=weibo.attitude", "post:-1:likes", "", "1", "", "1 no rule for the key: post:-1:likes"},
		{"post:{mid}:likes=weibo.attitude", "post:1:likes2", "", "1", "", "1 no rule for the key: post:1:likes2"},
		{"post:{{mid}}:likes=weibo.attitude", "post:{12}:likes", "", "1", "weibo.attitude 12=1", ""},
		{"{*}:{mid}=video.plays", "app:7", "", "9223372036854775807", "video.plays 7=9223372036854775807", ""},
		{"{*}:{mid}=video.plays", "app:x:7", "", "1", "", "1 no rule for the key: app:x:7"},
		{"v:{mid:36}=video.plays", "v:Zz", "", "1", "video.plays 1295=1", ""},
		{"v:{mid:16}/{*}=video.plays", "v:fF/any/thing", "", "1", "video.plays 255=1", ""},
		{`a\#\@\{mid}\\:{mid}=video.plays`, `a#@{mid}\:5`, "", "1", "video.plays 5=1", ""},
		{"p:{mid}:c#comments=weibo.comment", "p:5:c", "comments", "6", "weibo.comment 5=6", ""},
		{"p:{mid}:c#comments=weibo.comment", "p:5:c", "title", "x", "", "1 no rule for the field: p:5:c title = x"},
		{"p:{mid}:c#*=weibo", "p:5:c", "repost", "6", "weibo.repost 5=6", ""},
		{"p:{mid}:c#*=weibo", "p:5:c", "cntrn", "6", "", "1 no rule for the field: p:5:c cntrn = 6"},
		{"likes#{mid}=weibo.attitude", "likes", "77", "8", "weibo.attitude 77=8", ""},
		{"likes:{*}#{mid}=weibo.attitude", "likes:2024", "77", "8", "weibo.attitude 77=8", ""},
		{"l:{mid/1000}#{mid%1000}=weibo.attitude", "l:77", "008", "9", "weibo.attitude 77008=9", ""},
		{"l:{mid/1000}#{mid%1000}=weibo.attitude", "l:77", "1000", "9", "", "1 id out of range: l:77 1000 = 9"},
		{"l:{mid/1000}#{mid%1000}=weibo.attitude", "l:9223372036854775807", "0", "9", "", "1 id out of range: l:9223372036854775807 0 = 9"},
		{"l:{mid/1000}#{mid}=weibo.attitude", "l:77", "77008", "9", "weibo.attitude 77008=9", ""},
		{"l:{mid/1000}#{mid}=weibo.attitude", "l:77", "78008", "9", "", "1 id out of range: l:77 78008 = 9"},
		{"z@{mid}=video.plays", "z", "4", "1e+17", "video.plays 4=100000000000000000", ""},
		{"z@{mid}=video.plays", "z", "4", "1.5", "", "1 not a whole number: z 4 = 1.5"},
		{"z@{mid}=video.plays", "z", "4", "17." + strings.Repeat("0", 61) + "5", "", "1 not a whole number: z 4 = 17." + strings.Repeat("0", 61) + "... (65 bytes)"},
		{"z@{mid}=video.plays", "z", "4", "nan", "", "1 not a whole number: z 4 = nan"},
		{"z@{mid}=video.plays", "z", "4", "inf", "", "1 more than the column holds: z 4 = inf"},
		{"z@{mid}=video.plays", "z", "4", "-1e3", "", "1 below 0: z 4 = -1e3"},
		{"z@{mid}=video.plays", "z", "4", "9007199254740993", "video.plays 4=9007199254740993", ""},
		{"p:{mid}=weibo(repost,comment,attitude)", "p:3", "", "1, 2,3", "weibo.repost 3=1, weibo.comment 3=2, weibo.attitude 3=3", ""},
		{"p:{mid}=weibo(repost|_|attitude)", "p:3", "", "1|x|3", "weibo.repost 3=1, weibo.attitude 3=3", ""},
		{"p:{mid}=weibo(repost comment)", "p:3", "", "1 2", "weibo.repost 3=1, weibo.comment 3=2", ""},
		{"p:{mid}=weibo(repost:comment)", "p:3", "", "1:2:3", "", "1 packed otherwise than the rule says: p:3 = 1:2:3"},
		{"p:{mid}=weibo(repost:comment)", "p:3", "", "1:", "weibo.repost 3=1", "1 not a whole number: p:3 = 1:"},
		{"h#{mid}=weibo(repost,comment)", "h", "3", "1,2", "weibo.repost 3=1, weibo.comment 3=2", ""},
		{"p:{mid}=weibo[repost:u32,attitude:u16]", "p:3", "", "\x00\x01\x02\x03\xff\xfe", "weibo.repost 3=66051, weibo.attitude 3=65534", ""},
		{"p:{mid}=weibo[repost:u32le,_:u8,attitude:u16le]", "p:3", "", "\x03\x02\x01\x00\x77\xfe\xff", "weibo.repost 3=66051, weibo.attitude 3=65534", ""},
		{"p:{mid}=weibo[repost:u3,comment:u12,attitude:u9]", "p:3", "", "\xa0\x03\x01", "weibo.repost 3=5, weibo.comment 3=1, weibo.attitude 3=257", ""},
		{"p:{mid}=weibo[repost:u32,comment:u32]", "p:3", "", "12", "", "1 packed otherwise than the rule says: p:3 = 12"},
		{"p:{mid}=weibo[repost:u32,comment:u32,...]", "p:3", "", "\x00\x00\x01", "weibo.repost 3=256, weibo.comment 3=0", ""},
		{"p:{mid}=weibo[repost:u64,attitude:u8]", "p:3", "", "\xff\xff\xff\xff\xff\xff\xff\xff\x01", "weibo.attitude 3=1", `1 more than the column holds: p:3 = "\xff\xff\xff\xff\xff\xff\xff\xff\x01"`},
		{`p:{mid}=weibo{reposts:repost,"a b":comment}`, "p:3", "", `{"reposts":1,"a b":"2","x":[{}]}`, "weibo.repost 3=1, weibo.comment 3=2", ""},
		{"p:{mid}=weibo{reposts:repost,likes:attitude}", "p:3", "", `{"reposts":null,"likes":1.5}`, "", `1 not a whole number: p:3 = "{\"reposts\":null,\"likes\":1.5}"`},
		{"p:{mid}=weibo{reposts:repost}", "p:3", "", `null`, "", "1 packed otherwise than the rule says: p:3 = null"},
		{"p:{mid}=weibo.repost;q:{mid}=weibo.comment;h:{mid}#a=weibo.attitude", "q:3", "", `1`, "weibo.comment 3=1", ""},
		{"p:{mid}:c#a=weibo.comment;p:{mid}:c#b=weibo.repost", "p:5:c", "b", "6", "weibo.repost 5=6", ""},
	}
	s := testSchema(t)
	for _, test := range tests {
		r, err := Parse(strings.Split(test.rules, ";"), s)
		if err != nil {
			t.Errorf("%s: %v", test.rules, err)
			continue
		}
		var tally Tally
		var items []Item
		if m, ok := r.Key([]byte(test.key), &tally); ok {
			if m.Shape() == String {
				items = m.Value(nil, []byte(test.value), &tally)
			} else {
				items = m.Pair(nil, []byte(test.field), []byte(test.value), &tally)
			}
		}
		if got := show(r, items); got != test.items || skips(&tally) != test.skipped {
			t.Errorf("%s: %q %q = %q\n got %s, skipped %s\nwant %s, skipped %s", test.rules, test.key, test.field, test.value, got, skips(&tally), test.items, test.skipped)
		}
	}
}

// TestRuleErrors: rules that cannot be used, or that would leave it to their order what a key means.
func TestRuleErrors(t *testing.T) {
	for rules, want := range map[string]string{
		"":                                                 "want KEY=counter.column",
		"post:{mid}":                                       "want KEY=counter.column",
		"post:{mid}=weibo":                                 "want counter.column",
		"post=weibo.repost":                                "no {mid}",
		"post:{id}=weibo.repost":                           "no {mid}",
		"{mid}{mid}=weibo.repost":                          "a second {mid}",
		"{mid}#{mid}=weibo.repost":                         "a second {mid}",
		"{mid:8}=weibo.repost":                             "want {mid}, {mid:16}",
		"{mid/0}#{mid%0}=weibo.repost":                     "want {mid}, {mid:16}",
		"{mid=weibo.repost":                                "no {mid}",
		"{mid:16=weibo.repost":                             "a { without a }",
		"{mid/10}#{mid%11}=weibo.repost":                   "of the same N",
		"{mid/10}=weibo.repost":                            "of the same N",
		"a{mid}0=weibo.repost":                             "behind the {mid} stands",
		"a{mid:16}b=weibo.repost":                          "behind the {mid} stands",
		"{*}{mid}=weibo.repost":                            "side by side",
		`a{mid}\=weibo.repost`:                             `ends with a \`,
		"h#=weibo.repost":                                  "nothing stands behind the #",
		"h#*=weibo":                                        "want {mid} in the key",
		"h:{mid}#*=weibo.repost":                           "want a counter's name",
		"z@{mid}=weibo(repost,comment)":                    "a score is one number",
		"p:{mid}=weibo.mid":                                "mid is the id of weibo",
		"p:{mid}=wei-bo.repost":                            "not a counter's name",
		"p:{mid}=weibo.re-post":                            "not a column's name",
		"p:{mid}=weibo(repost)":                            "want two columns or more",
		"p:{mid}=weibo(repost,comment":                     "want a ) at its end",
		"p:{mid}=weibo(repost,comment|_)":                  "between all columns",
		"p:{mid}=weibo(repost,cntrn)":                      "a column stands in it twice",
		"p:{mid}=weibo(_,_)":                               "no column stands in it",
		"p:{mid}=weibo[repost:32]":                         "want column:u32",
		"p:{mid}=weibo[repost:u65]":                        "want column:u32",
		"p:{mid}=weibo[repost:u12le]":                      "want column:u32",
		"p:{mid}=weibo[_:u4,repost:u8le]":                  "want column:u32",
		"p:{mid}=weibo{repost}":                            "want key:column",
		"p:{mid}=weibo{\"a:repost}":                        "want key:column",
		"p:{mid}=weibo.repost;p:{mid}=weibo.comment":       `a key may fit rule "p:{mid}=weibo.repost" too`,
		"p:{mid}=weibo.repost;p:{mid:16}=weibo.comment":    "a key may fit rule",
		"p:{mid}=weibo.repost;{*}:{mid}=weibo.comment":     "a key may fit rule",
		"p:{mid}=weibo.repost;p:{mid}#c=weibo.comment":     "a key may fit rule",
		"p:{mid}#c=weibo.repost;{*}:{mid}#d=weibo.comment": "a key may fit rule",
		"p:{mid}#c=weibo.repost;p:{mid}#c=weibo.comment":   "a field may fit rule",
		"likes:a#{mid}=weibo.repost;likes:{*}#{mid:36}=weibo.comment":         "a key may fit rule",
		"likes#{mid}=weibo.repost;likes#7=weibo.comment":                      "no {mid}",
		"likes#{mid}=weibo.repost;likes#{mid:36}=weibo.comment":               "a field may fit rule",
		"p:{mid}:c#*=weibo;p:{mid}:c#repost=weibo.comment":                    "a field may fit rule",
		strings.Repeat("a", 600) + "{mid}=weibo.repost":                       "want at most 512",
		strings.Repeat("a", 9000) + "{mid}=weibo.repost":                      "want KEY=counter.column",
		strings.TrimSuffix(strings.Repeat("p{mid}=weibo.repost;", 1025), ";"): "want 1 to 1024",
	} {
		_, err := Parse(strings.Split(rules, ";"), testSchema(t))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100s: %v, want %q", rules, err, want)
		}
	}
}

// TestMissing: the error of rules for columns that are not there is the lines that add them.
func TestMissing(t *testing.T) {
	s := testSchema(t)
	rules := []string{"p:{mid}=weibo(repost,likes,views)", "h:{mid}#*=photo", "x:{mid}=photo.likes", "y:{mid}=photo.likes", "z:{mid}=weibo[views:u8,a:u8,b:u8]"}
	_, err := Parse(rules, s)
	var missing *MissingError
	if !errors.As(err, &missing) {
		t.Fatal(err)
	}
	want := []string{"ADD COLUMN weibo likes hint=8 max=32", "ADD COLUMN weibo views hint=8 max=32", "ADD COUNTER photo",
		"ADD COLUMN photo likes hint=8 max=32 suffix=photo_likes", "ADD COLUMN weibo a hint=8 max=32", "ADD COLUMN weibo b hint=8 max=32"}
	if strings.Join(missing.Statements, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q", missing.Statements)
	}
	if s, err = schema.ParseScript(strings.NewReader(strings.Join(missing.Statements, "\n")), s); err != nil {
		t.Fatal(err)
	}
	r, err := Parse(rules, s)
	if err != nil {
		t.Fatal(err)
	}
	if r.Repeated() == nil || !strings.Contains(r.Repeated().Error(), "write the same column, ") {
		t.Errorf("Repeated: %v", r.Repeated())
	}
}

// TestPrefix: the pattern for SCAN.
func TestPrefix(t *testing.T) {
	for rules, want := range map[string]string{
		"post:{mid}=weibo.repost":                                           "post:*",
		"post:{mid}=weibo.repost;poll*[{mid}=weibo.comment":                 "po*",
		"po*[?{mid}=weibo.comment":                                          `po\*\[\?*`,
		"a{mid}=weibo.repost;b{mid}=weibo.comment":                          "",
		"likes#{mid}=weibo.repost":                                          "likes*",
		"post:{mid}=weibo.repost;post:{mid}:c=weibo.comment":                "post:*",
		"p{mid}=weibo.repost;h{mid}#c=weibo.comment;z@{mid}=weibo.attitude": "",
	} {
		r, err := Parse(strings.Split(rules, ";"), testSchema(t))
		if err != nil {
			t.Fatal(rules, err)
		}
		if got := Glob(r.Prefix()); got != want {
			t.Errorf("%s: %q, want %q", rules, got, want)
		}
	}
}

// TestTally: a resume file keeps the whole tally.
func TestTally(t *testing.T) {
	var a, b, c Tally
	for i := range 7 {
		a.Skip(NoRule, fmt.Appendf(nil, "k%d", i), nil, nil)
	}
	a.Skip(TooWide, []byte("k\n"), []byte("f"), []byte("99"))
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	c.Skip(NoRule, []byte("first"), nil, nil)
	c.Merge(&b)
	if got, want := skips(&c), `8 no rule for the key: first; k0; k1; k2; k3 | 1 more than the column holds: "k\n" f = 99`; got != want || c.Total() != 9 || c.Count(NoRule) != 8 {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if err := json.Unmarshal([]byte(`[{"reason":"mood"}]`), &b); err == nil {
		t.Error("a reason that there is none of was read")
	}
}
