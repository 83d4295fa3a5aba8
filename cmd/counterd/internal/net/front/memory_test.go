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
		still := 0 // sessions that wait, and those that have got everything before
		for _, session := range sessions[1:] {
			if holds := session.account.holds.Load(); holds > much && (!session.InLoop() || session.Activity.arrived.Load() > 900_000) {
				still++
			}
		}
		return most > limit && still == flood || most > 8*limit
	})
	if most > 8*limit {
		t.Errorf("%d bytes were held, with a limit of %d", most, limit)
	}
	small.want("PING", "+PONG")
	if _, err := io.WriteString(small.conn, "RESERVE 8000000\r\n"); err != nil {
		t.Fatal(err)
	}
	until(t, "what is reserved counts", func() bool { return sessions[0].account.holds.Load() >= 8_000_000 || s.reserved.Load() > 0 })
	s.mu.Unlock()
	until(t, "an answer to the reservation", func() bool { return s.reserved.Load()+s.refused.Load() > 0 })
	if s.reserved.Load() > 0 {
		t.Error("a session reserved what it may not have: it did not wait for the janitor, which closes the one that holds most")
	}
	until(t, "the others are within the limit", func() bool { return s.Held() <= limit })
}
