package items

import (
	"fmt"
	"slices"
	"testing"

	"github.com/counterd/counterd/counter"
)

// TestErrorIsFirst: of a series of replies, each call of Answer gives one error at most, as the first reply that it appends. So the caller knows
// which command the error belongs to.
func TestErrorIsFirst(t *testing.T) {
	store, err := counter.Open("", counter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.AlterScript("add counter weibo\nadd column weibo comment hint=8 max=8 suffix=cntcm\n"); err != nil {
		t.Fatal(err)
	}
	c := Call{Batch: store.NewBatch()}
	if err := c.Batch.Begin(); err != nil {
		t.Fatal(err)
	}
	Set(&c, [][]byte{nil, []byte("3.cntcm"), []byte("255")})
	var keys [][]byte
	for _, key := range []string{"1.cntcm", "2.cntcm", "3.cntcm", "3.cntcm", "4.cntcm"} {
		keys = append(keys, []byte(key))
	}
	IncrEach(&c, keys)
	c.Batch.Run()
	c.Batch.End()
	var answers []string
	for i := 0; i < len(c.Owed); {
		size := c.Out.Len()
		i = c.Answer(i)
		answers = append(answers, string(c.Out.From(size)))
	}
	refused := "-" + ErrOverflow + "\r\n"
	if want := []string{"+OK\r\n", ":1\r\n:1\r\n", refused, refused, ":1\r\n"}; !slices.Equal(answers, want) {
		t.Errorf("answers %q, want %q", answers, want)
	}
}

// TestGetsOfAbsentPosts: a series of GETs of posts with and without counters, which is answered in several parts.
func TestGetsOfAbsentPosts(t *testing.T) {
	store, err := counter.Open("", counter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.AlterScript("add counter weibo\nadd column weibo comment hint=8 max=63 suffix=cntcm\n"); err != nil {
		t.Fatal(err)
	}
	c := Call{Batch: store.NewBatch()}
	if err := c.Batch.Begin(); err != nil {
		t.Fatal(err)
	}
	const posts = 3*seriesPart + 1
	var keys [][]byte
	var want string
	for i := range posts {
		keys = append(keys, fmt.Appendf(nil, "%d.cntcm", i+1))
		if i%5 < 2 { // the first one of a part, and the last one
			want += "$-1\r\n"
			continue
		}
		value := fmt.Sprint(i * i * i * i)
		Set(&c, [][]byte{nil, keys[i], []byte(value)})
		want += fmt.Sprintf("$%d\r\n%s\r\n", len(value), value)
	}
	sets := len(c.Owed)
	GetEach(&c, keys)
	c.Batch.Run()
	c.Batch.End()
	for i := sets; i < len(c.Owed); {
		i = c.Answer(i)
	}
	if got := string(c.Out.From(0)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
