package front

import (
	"io"
	"strings"
	"testing"
)

// TestFloodWaitsForRoom: above the limit, sessions that hold much read no more before the janitor has closed the largest,
// however long that takes. The others are served.
func TestFloodWaitsForRoom(t *testing.T) { both(t, nil, testFloodWaitsForRoom) }

func testFloodWaitsForRoom(t *testing.T, s *echoes) {
	const limit, flood = 2 << 20, 40
	s.LimitMemory(limit)
	small := dial(t, s)
	small.want("PING", "+PONG")
	var conns []*wire
	for range flood {
		conns = append(conns, dial(t, s))
		conns[len(conns)-1].want("PING", "+PONG")
	}
	sessions := s.Sessions()
	s.mu.Lock() // keeps the janitor from looking
	for _, c := range conns {
		go func() { _, _ = io.WriteString(c.conn, "*2\r\n$4\r\nECHO\r\n$1000000\r\n"+strings.Repeat("x", 900_000)) }()
	}
	most := int64(0)
	until(t, "the flood waits, or all of it was read", func() bool {
		most = max(most, s.Held())
		waiting, holding := 0, 0
		for _, session := range sessions[1:] {
			if session.holds.Load() > much {
				holding++
				if !session.InLoop() {
					waiting++
				}
			}
		}
		return most > limit && waiting == holding && holding == flood || most > 8*limit
	})
	if most > 8*limit {
		t.Errorf("%d bytes were held, with a limit of %d", most, limit)
	}
	small.want("PING", "+PONG")
	reserved := make(chan bool)
	go func() { reserved <- sessions[0].Reserve(limit) }()
	select {
	case <-reserved:
		t.Error("a reservation above the limit did not wait")
	default:
	}
	s.mu.Unlock()
	if <-reserved {
		t.Error("the session that holds most was not closed")
	}
	until(t, "the others are within the limit", func() bool { return s.Held() <= limit })
}
