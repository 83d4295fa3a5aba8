package items

import (
	"fmt"
	"strings"
	"testing"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/slot"
)

// TestWholeReply: of a command on several results, some or all of which are not served here, one error is the whole reply.
// The replies before and after it in the batch stay.
func TestWholeReply(t *testing.T) {
	for _, slotGroups := range []bool{false, true} {
		for _, proto := range []int{2, 3} {
			store, err := counter.Open("", counter.Options{SlotGroups: slotGroups})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			if err := store.AlterScript("add counter weibo\nadd column weibo comment hint=8 max=8 suffix=cntcm\nadd column weibo repost hint=8 max=8 suffix=cntrn\n"); err != nil {
				t.Fatal(err)
			}
			here, gone := uint64(1), uint64(2)
			for slot.Group(gone) == slot.Group(here) {
				gone++
			}
			owned := store.Groups().Owned()
			owned.Remove(slot.Group(gone))
			store.Groups().Own(owned)
			for _, w := range []struct {
				plan    func(*Call, [][]byte)
				command string // with H for a post that is here and G for a post that is gone
				want    string // the reply; empty: that G is elsewhere
			}{
				{MGet, "MGET G.cntcm", ""},
				{MGet, "MGET H.cntcm G.cntcm H.cntrn", ""},
				{MGet, "MGET G.cntcm nosuch H.cntcm", ""},
				{MGet, "MGET H.cntcm nosuch", "*2|$1|5|NULL"},
				{HMGet, "HMGET G comment nosuch repost", ""},
				{HGetAll, "HGETALL G", ""}, {HVals, "HVALS G", ""}, {HKeys, "HKEYS G", ""}, {HScan, "HSCAN G 0", ""},
				{CounterMGet, "COUNTER.MGET weibo H G", ""},
				{CounterMGet, "COUNTER.MGET weibo G H COLUMNS repost", ""},
				{CounterMIncrBy, "COUNTER.MINCRBY G.cntcm 1 G.cntrn 1", ""},
				{CounterMIncrBy, "COUNTER.MINCRBY G.cntcm 1 G.cntrn 1 QUIET", ""},
				{CounterMIncrBy, "COUNTER.MINCRBY H.cntrn 1 G.cntcm 1 H.cntrn 1", "-UNCERTAIN 2 of 3 changes were made, then: ERR counter: hash slot SLOT is not served here"},
				{CounterMIncrBy, "COUNTER.MINCRBY H.cntcm 1 H.cntcm 255", "*2|:6|-" + ErrOverflow},
				{CounterMSet, "COUNTER.MSET weibo H 1 1 G 2 2", ""},
				{CounterDrain, "COUNTER.DRAIN H.cntrn G.cntcm", ""},
				{IncrEx, "INCREX G.cntcm", ""},
				{MSet, "MSET H.cntcm 1 G.cntcm 1", ""},
				{Exists, "EXISTS H G", ""},
				{Del, "DEL H G", ""},
				{GetDel, "GETDEL G.cntcm", ""},
			} {
				c := Call{Batch: store.NewBatch(), Elsewhere: func(of uint16) string { return fmt.Sprintf("MOVED %d there", of) }}
				c.Out.SetProtocol(proto)
				if err := c.Batch.Begin(); err != nil {
					t.Fatal(err)
				}
				words := strings.NewReplacer("H", fmt.Sprint(here), "G", fmt.Sprint(gone))
				add := func(plan func(*Call, [][]byte), name, rest string) {
					args := [][]byte{[]byte(name)}
					for word := range strings.FieldsSeq(rest) {
						args = append(args, []byte(words.Replace(word)))
					}
					plan(&c, args)
				}
				name, rest, _ := strings.Cut(w.command, " ")
				add(HSet, "HSET", "H comment 5")
				add(w.plan, name, rest)
				add(Incr, "INCR", "7777.cntcm")
				add(Del, "DEL", "H 7777")
				c.Batch.Run()
				c.Batch.End()
				var got []string
				for i := 0; i < len(c.Owed); {
					from := c.Out.Len()
					i = c.Answer(i)
					got = append(got, strings.ReplaceAll(strings.TrimSuffix(string(c.Out.From(from)), "\r\n"), "\r\n", "|"))
				}
				want := w.want
				if want == "" {
					want = fmt.Sprintf("-MOVED %d there", slot.Of(gone))
				}
				want = strings.NewReplacer("SLOT", fmt.Sprint(slot.Of(gone)), "NULL", map[int]string{2: "$-1", 3: "_"}[proto]).Replace(want)
				if len(got) != 4 || got[1] != want || got[2] != ":1" || got[3] != ":2" {
					t.Errorf("slotGroups %v, RESP%d, %s: got %q, want %q behind one reply and before two", slotGroups, proto, w.command, got, want)
				}
			}
		}
	}
}
