package topology

import "fmt"

// Start names one life of a node's directory. A process registers a new one, in the directory first and in etcd then, when
// it starts and each few minutes after. etcd holds the start that was registered last, and the directory holds it too. So a
// directory without it is an older copy: a machine that was rolled back, or a backup that was put back.
//
// The count alone would not do: an older copy that counts on comes to the same number. The token is random, so it does not.
type Start struct {
	Count uint64 `json:"count"` // rises with each start; 0: none was registered yet
	Token string `json:"token"`
}

// maxToken bounds a token that is read, in bytes.
const maxToken = 64

func (s Start) check() error {
	if (s.Count == 0) != (s.Token == "") || len(s.Token) > maxToken {
		return fmt.Errorf("got start %d with token %.100q, want both or none, and a token of at most %d bytes", s.Count, s.Token, maxToken)
	}
	return nil
}

// BeginStart registers a start of a node. It must be written in the node's directory before.
func BeginStart(m *Map, id NodeID, start Start) (Change, error) {
	c := Change{What: fmt.Sprintf("start %d of node %s", start.Count, id)}
	return c, c.begin(m, id, start)
}

func (c *Change) begin(m *Map, id NodeID, start Start) error {
	n := m.Nodes[id]
	switch err := start.check(); {
	case n == nil:
		return refuse(c.What, "it is not known")
	case err != nil:
		return refuse(c.What, "%v", err)
	case start.Count <= n.Start.Count:
		return refuse(c.What, "start %d is registered, want a higher one", n.Start.Count)
	}
	next := *n
	next.Start = start
	c.setNode(next)
	return nil
}
