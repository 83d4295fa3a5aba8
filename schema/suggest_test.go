package schema

import "testing"

func TestSuggest(t *testing.T) {
	s := parse(t, richScript+"add column wide likes hint=4\n")
	for key, want := range map[string]string{
		"post:123:likes":             "123.likes",
		"likes:123":                  "123.likes",
		"123.comment":                "123.cntcm", // a name, where the suffix is another
		"123:cntrn":                  "123.cntrn",
		"weibo:123:attitude":         "123.cntan",
		"wide:123:cntan":             "123.big", // of another counter
		"post:00123:likes:total":     "123.likes",
		"post:123":                   "123.cntcm",
		"reads/123":                  "reads:123",
		"123.n":                      "reads:123", // the empty suffix
		"counter:__rand_int__":       "123.cntcm",
		"\xff\x00":                   "123.cntcm",
		"":                           "123.cntcm",
		"99999999999999999999.cntcm": "123.cntcm",
	} {
		k, ok := s.Suggest([]byte(key))
		if !ok {
			t.Errorf("%q: got nothing, want %q", key, want)
			continue
		}
		got := string(s.AppendKey(nil, k.Counter, k.Col, k.Mid))
		if got != want {
			t.Errorf("%q: got %q, want %q", key, got, want)
		}
		if _, ok := s.ParseKey([]byte(got)); !ok {
			t.Errorf("%q: the suggestion %q is no key", key, got)
		}
	}
	for _, script := range []string{"", "add counter a"} {
		if got, ok := parse(t, script).Suggest([]byte("post:1:likes")); ok {
			t.Errorf("%q: got %+v", script, got)
		}
	}
}
