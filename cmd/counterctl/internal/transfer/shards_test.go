package transfer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/internal/slot"
)

// fakeNodes are the nodes of a fake cluster. The first two lead, the third is a replica of the first.
var fakeNodes = [...]string{"10.0.0.1:7000", "10.0.0.2:7000", "10.0.0.3:7000"}

// fakeSlots is the hash slots of a fake that is a cluster. Groups of them move now and then, with the memory of their numbers.
type fakeSlots struct {
	rng          *rand.Rand
	second       slot.Set // groups of the second node
	moves, moved int
	forward      bool // all nodes take all slots, and tell nobody of the cluster
	noRight      bool // nobody may ask for slots
}

// elsewhere is the refusal of a command for posts of another node; "": the node takes the command.
func (f *fake) elsewhere(addr string, args []string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.slots
	switch {
	case s == nil && args[0] != "CLUSTER":
		return ""
	case s != nil && s.noRight && args[0] == "CLUSTER":
		return "-NOPERM User has no permissions to run the 'cluster|slots' command"
	case args[0] == "CLUSTER" && (s == nil || s.forward):
		return "-ERR This instance has cluster support disabled"
	case args[0] == "CLUSTER":
		return s.answer()
	}
	var keys []string
	switch args[0] {
	case "MSET", "COUNTER.MINCRBY":
		for i := 1; i < len(args) && args[i] != "QUIET"; i += 2 {
			keys = append(keys, args[i])
		}
	case "HDEL":
		keys = args[1:2]
	default:
		return ""
	}
	of := slot.OfKey([]byte(keys[0]))
	for _, key := range keys {
		if k, ok := f.schema.ParseKey([]byte(key)); !ok || slot.Of(k.Mid) != slot.OfKey([]byte(key)) {
			return "-ERR clients of a cluster hash '" + key + "' as it stands"
		}
		if slot.OfKey([]byte(key)) != of {
			return "-CROSSSLOT Keys in request don't hash to the same slot"
		}
	}
	if s.rng.IntN(100) == 0 {
		s.moves++
		if group := uint8(s.rng.IntN(slot.Groups)); s.second.Has(group) {
			s.second.Remove(group)
		} else {
			s.second.Add(group)
		}
	}
	if leader := s.leader(slot.GroupOf(of)); leader != addr && !s.forward {
		s.moved++
		return fmt.Sprintf("-MOVED %d %s", of, leader)
	}
	return ""
}

func (s *fakeSlots) leader(group uint8) string {
	if s.second.Has(group) {
		return fakeNodes[1]
	}
	return fakeNodes[0]
}

// answer is that to CLUSTER SLOTS: a range for each group.
func (s *fakeSlots) answer() string {
	node := func(addr string) string {
		return fmt.Sprintf("\r\n*2\r\n$8\r\n%s\r\n:7000", strings.TrimSuffix(addr, ":7000"))
	}
	text := fmt.Sprintf("*%d", slot.Groups)
	for group := range slot.Groups {
		nodes := node(s.leader(uint8(group)))
		if !s.second.Has(uint8(group)) {
			nodes += node(fakeNodes[2])
		}
		text += fmt.Sprintf("\r\n*%d\r\n:%d\r\n:%d%s", 2+strings.Count(nodes, "*"), group*slot.PerGroup, (group+1)*slot.PerGroup-1, nodes)
	}
	return text
}

// TestFindShards: a cluster is found by its ports and by forward ports, and one server is not taken for one.
func TestFindShards(t *testing.T) {
	f := newFake(t)
	o := SinkOptions{Schema: f.schema, Columns: f.columns()}
	find := func() (*Shards, error) { return FindShards(t.Context(), o, fakeNodes[2], f.dialNode) }
	if s, err := find(); s != nil || err != nil {
		t.Errorf("of one server: %v, %v", s, err)
	}
	f.slots = &fakeSlots{rng: rand.New(rand.NewPCG(1, 1))}
	f.slots.second.Add(255)
	if s, err := find(); err != nil || s.forward || s.leader(0) != fakeNodes[0] || s.leader(slot.Slots-1) != fakeNodes[1] || len(s.nodes) != 3 {
		t.Errorf("of a cluster: %+v, %v", s, err)
	}
	f.slots.noRight = true
	wrong := (*RightsError)(nil)
	if s, err := find(); s != nil && err == nil || !errors.As(err, &wrong) {
		t.Errorf("without the right: %v", err)
	}
	f.slots.noRight, f.slots.forward = false, true
	if s, err := find(); err != nil || !s.forward || s.leader(7) != fakeNodes[2] {
		t.Errorf("of a forward port: %+v, %v", s, err)
	}
	if len(f.values) > 0 {
		t.Errorf("the question has written %v", f.values)
	}
}

// TestShardsLost: additions that a cluster has lost are noticed before more is added, and a chunk takes
// one number for each hash slot, or is refused.
func TestShardsLost(t *testing.T) {
	f := newFake(t)
	f.slots = &fakeSlots{rng: rand.New(rand.NewPCG(1, 1)), forward: true}
	o := ImportOptions{Target: "t", Add: true, Resume: t.TempDir() + "/state", Verify: VerifyNone, Sink: SinkOptions{Dial: f.dial, Schema: f.schema, Columns: f.columns()}}
	var err error
	if o.Sink.Shards, err = FindShards(t.Context(), o.Sink, fakeNodes[0], f.dialNode); err != nil {
		t.Fatal(err)
	}
	items, _ := values(f, rand.New(rand.NewPCG(1, 2)), 3000)
	o.Open = func(context.Context) (Source, error) { return &list{items: items, identity: "x", chunk: 1000}, nil }
	ctx, cancel := context.WithCancel(t.Context())
	o.Progress = func(string, uint64, uint64, uint64) { cancel() }
	if _, err := Import(ctx, o); !errors.Is(err, ErrInterrupted) {
		t.Fatal(err)
	}
	state, err := loadState(o.Resume)
	if err != nil || state == nil {
		t.Fatal(err)
	}
	im := &importer{ImportOptions: o, state: state}
	var lasts [slot.Groups]uint64
	copy(lasts[:], state.Seqs)
	if _, err := im.compareLasts(&lasts); err != nil {
		t.Errorf("all numbers are known: %v", err)
	}
	for group, n := range lasts {
		if n > 0 {
			lasts[group]--
			break
		}
	}
	lost := (*StateError)(nil)
	if _, err := im.compareLasts(&lasts); !errors.As(err, &lost) {
		t.Errorf("a number is lost: %v", err)
	}
	var many []mapping.Item
	for mid := uint64(1); len(many) < 1000; mid++ {
		if slot.Group(mid) == 7 {
			many = append(many, mapping.Item{Mid: mid, Op: mapping.Add, Value: 1})
		}
	}
	s := NewSink(o.Sink)
	defer s.Close()
	if err := s.plan(many); err != nil || s.Seqs()[7] > slot.PerGroup {
		t.Errorf("1000 additions of a group took %d numbers, %v", s.Seqs()[7], err)
	}
	before := s.Seqs()
	s.slotPairs = 1
	if err := s.Write(t.Context(), many); !errors.Is(err, ErrGroup) || !slices.Equal(s.Seqs(), before) {
		t.Errorf("1000 commands of a group: %v, and its last number is %d, was %d", err, s.Seqs()[7], before[7])
	}
}
