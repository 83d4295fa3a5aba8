package items

import (
	"fmt"
	"strings"
	"testing"

	"github.com/counterd/counterd/counter"
)

// TestCall has commands planned, run and answered without a connection: the replies come in order, also those of
// refused commands.
func TestCall(t *testing.T) {
	store, err := counter.Open("", counter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.AlterScript("add counter weibo\nadd column weibo comment hint=8 max=32 suffix=cntcm\n"); err != nil {
		t.Fatal(err)
	}
	c := Call{Batch: store.NewBatch()}
	if err := c.Batch.Begin(); err != nil {
		t.Fatal(err)
	}
	for _, w := range []struct {
		plan    func(*Call, [][]byte)
		command string
	}{
		{Incr, "INCR 1.cntcm"},
		{IncrBy, "INCRBY 1.cntcm 41"},
		{IncrBy, "INCRBY 1.cntcm x"},
		{MSet, "MSET 2.cntcm 5 nosuch:1 6"},
		{MGet, "MGET 1.cntcm 2.cntcm"},
		{HGetAll, "HGETALL 1"},
		{Decr, "DECR 2.cntcm"},
	} {
		var args [][]byte
		for word := range strings.FieldsSeq(w.command) {
			args = append(args, []byte(word))
		}
		w.plan(&c, args)
	}
	if n := c.Out.Len(); n != 0 {
		t.Errorf("%d bytes were answered before the batch ran", n)
	}
	c.Batch.Run()
	c.Batch.End()
	for i := 0; i < len(c.Owed); {
		i = c.Answer(i)
	}
	want := []string{":1", ":42", "-" + ErrNotInteger, "-" + errNoKey(store.Schema(), []byte("nosuch:1"), false), "*2", "$2", "42", "$-1", "*2", "$7", "comment", "$2", "42",
		"-" + ErrOverflow}
	if got := string(c.Out.From(0)); got != strings.Join(want, "\r\n")+"\r\n" {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestPauses: commands on very many posts let others have their turn after each 512 of them while they are planned.
func TestPauses(t *testing.T) {
	store, err := counter.Open("", counter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.AlterScript("add counter a\nadd column a v hint=8 max=32 suffix=v"); err != nil {
		t.Fatal(err)
	}
	const posts = 4 * breath
	var keys, mids, pairs, rows [][]byte
	for i := range posts {
		mid, key := fmt.Appendf(nil, "%d", i), fmt.Appendf(nil, "%d.v", i)
		keys, mids = append(keys, key), append(mids, mid)
		pairs, rows = append(pairs, key, []byte("1")), append(rows, mid, []byte("1"))
	}
	for _, tt := range []struct {
		name string
		plan func(*Call, [][]byte)
		args [][]byte
	}{
		{"DEL", Del, keys}, {"EXISTS", Exists, keys}, {"MSET", MSet, pairs},
		{"COUNTER.MGET", CounterMGet, append([][]byte{[]byte("a")}, mids...)}, {"COUNTER.MSET", CounterMSet, append([][]byte{[]byte("a")}, rows...)},
	} {
		c := Call{Batch: store.NewBatch()}
		pauses := 0
		c.Pause = func() { pauses++ }
		tt.plan(&c, append([][]byte{[]byte(tt.name)}, tt.args...))
		if got := c.Batch.Len(); got != posts {
			t.Errorf("%s: %d operations, want %d", tt.name, got, posts)
		}
		if want := posts/breath - 1; pauses < want {
			t.Errorf("%s: %d pauses while %d posts were planned, want %d at least", tt.name, pauses, posts, want)
		}
	}
}
