package transfer

import (
	"fmt"
	"net"
	"strconv"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/wire"
)

// SlotRange is an element of the answer to CLUSTER SLOTS: hash slots and the nodes that serve them.
type SlotRange struct {
	First, Last int64
	Primary     string   // its address
	Replicas    []string // those that have an address
}

var errSlots = fmt.Errorf("CLUSTER SLOTS: %w", wire.ErrProtocol)

// ReadSlots reads the answer to CLUSTER SLOTS of the node at an address. A node without a host is reached like that one.
func ReadSlots(v wire.Value, asked string) (list []SlotRange, err error) {
	here, _, _ := net.SplitHostPort(asked)
	address := func(n wire.Value) (string, bool) {
		if len(n.Array) < 2 {
			return "", false
		}
		host := n.Array[0].Str
		if host == "" || host == "?" {
			host = here
		}
		return net.JoinHostPort(host, strconv.FormatInt(n.Array[1].Int, 10)), true
	}
	for _, e := range v.Array { // first slot, last slot, [host, port, id ...] of the primary, of its replicas
		if len(e.Array) < 3 {
			return nil, errSlots
		}
		r := SlotRange{First: e.Array[0].Int, Last: e.Array[1].Int}
		var ok bool
		if r.Primary, ok = address(e.Array[2]); !ok || r.First < 0 || r.Last >= slot.Slots || r.First > r.Last {
			return nil, errSlots
		}
		for _, n := range e.Array[3:] {
			if a, ok := address(n); ok {
				r.Replicas = append(r.Replicas, a)
			}
		}
		list = append(list, r)
	}
	return list, nil
}
