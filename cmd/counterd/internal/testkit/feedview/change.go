package feedview

import (
	"strconv"

	"github.com/counterd/counterd/internal/feedjoin"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/wire"
)

// Change is a change of a feed.
type Change struct {
	Parts    []Part
	Producer string // of a numbered change; empty if the server does not know it
	Seq      string
}

// Part is a part of a change: it concerns one post, or all of a range or a shard.
type Part struct {
	Kind    string // set, del, drop, flush, schema, gain or lose
	Counter string
	Mid     uint64 // of a drop, the first one
	End     uint64 // of a drop: behind the last
	Columns []string
	Values  []int64
	Told    bool             // the values before are known
	Old     map[string]int64 // by column; none: the post was not there
	Groups  string           // of hash slots; of a drop, empty: all
	From    uint64           // of a gain: the shard that had the groups; 0: it is not known
	Offset  uint64           // of a gain: where that shard's log has all of the groups
}

// Parse reads a change of a reply of COUNTER.FEED.
func Parse(v wire.Value) feedjoin.Change[Change] {
	c := feedjoin.Change[Change]{Position: v.Array[0].Str}
	for _, one := range v.Array[2].Array {
		words := one.Array
		p := Part{Kind: words[0].Str}
		switch p.Kind {
		case "set", "del":
			p.Counter, p.Mid = words[1].Str, uint64(words[2].Int)
			if len(words)%2 == 0 {
				p.old(&words[len(words)-1])
				words = words[:len(words)-1]
			}
			for i := 3; i < len(words); i += 2 {
				p.Columns, p.Values = append(p.Columns, words[i].Str), append(p.Values, words[i+1].Int)
			}
		case "drop":
			p.Counter, p.Mid, p.End = words[1].Str, number(words[2].Str), number(words[3].Str)
			if len(words) > 4 {
				p.Groups = words[4].Str
			}
		case "gain", "lose":
			p.Groups = words[2].Str
			if p.Kind == "gain" && len(words) > 4 {
				p.From, p.Offset = uint64(words[3].Int), uint64(words[4].Int)
				c.Gains = append(c.Gains, feedjoin.Gain{Groups: p.Groups, From: p.From, Offset: p.Offset})
			}
		}
		c.Value.Parts = append(c.Value.Parts, p)
	}
	if len(v.Array) > 3 && !v.Array[3].Null {
		c.Value.Producer, c.Value.Seq = v.Array[3].Str, v.Array[4].Text()
	}
	return c
}

// old reads the values before a part.
func (p *Part) old(v *wire.Value) {
	p.Told, p.Old = !v.Null, map[string]int64{}
	for i := 0; i+1 < len(v.Array); i += 2 {
		p.Old[v.Array[i].Str] = v.Array[i+1].Int
	}
}

// number is an id of a range; a text that is none is 0.
func number(text string) uint64 {
	n, _ := strconv.ParseUint(text, 10, 64)
	return n
}

// set is the groups of a part; a text that is no set has none.
func (p *Part) set() slot.Set {
	if p.Kind == "drop" && p.Groups == "" {
		return slot.AllGroups()
	}
	groups, _ := slot.ParseSet(p.Groups)
	return groups
}
