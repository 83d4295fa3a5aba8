package items

import (
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
