package front

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestWake: a woken session sends its notices, wherever it is: waiting for input, working, elsewhere, or blocked in a
// command. Notices stand between replies, never in one, and the last one is always told.
func TestWake(t *testing.T) { both(t, nil, testWake) }

func testWake(t *testing.T, h *echoes) {
	const rounds = 300
	var all sync.WaitGroup
	for i := range 6 {
		c := dial(t, h)
		c.want("PING", "+PONG")
		sessions := h.Sessions()
		e := sessions[len(sessions)-1].Handler().(*echo)
		rng := rand.New(rand.NewPCG(uint64(i), 1))
		blocks := i == 0
		all.Go(func() {
			var notes sync.WaitGroup
			notes.Go(func() {
				for range rounds {
					e.due.Add(1)
					e.Wake()
					if rng.IntN(3) == 0 {
						time.Sleep(time.Duration(rng.IntN(300)) * time.Microsecond)
					}
				}
			})
			next, seen := 0, int64(0)
			read := func() {
				v := c.read()
				if v.Kind != '+' {
					if want := fmt.Sprintf("%q", fmt.Sprint(next)); v.String() != want {
						t.Errorf("got %s, want %s", v, want)
					}
					next++
					return
				}
				var note int64
				if _, err := fmt.Sscanf(v.Text, "note %d", &note); err != nil || note < seen {
					t.Errorf("got %s behind note %d", v, seen)
				}
				seen = note
			}
			if blocks {
				c.send("BLOCK\r\n")
				for seen < rounds {
					read()
				}
				notes.Wait()
				return
			}
			for sent := 0; sent < rounds; {
				var text strings.Builder
				for range 1 + sent%7 {
					fmt.Fprintf(&text, "%s %d\r\n", []string{"ECHO", "LATER", "SLOW"}[sent%3], sent)
					sent++
				}
				c.send(text.String())
				for next < sent {
					read()
				}
			}
			for seen < rounds {
				read()
			}
			notes.Wait()
		})
	}
	all.Wait()
}

// TestWakeSlowReader: notices to somebody who does not read wait, and are told when that reads on.
func TestWakeSlowReader(t *testing.T) { both(t, nil, testWakeSlowReader) }

func testWakeSlowReader(t *testing.T, h *echoes) {
	c := dial(t, h)
	c.want("PING", "+PONG")
	e := h.Sessions()[0].Handler().(*echo)
	text := strings.Repeat("x", 8<<10)
	const replies = 600
	go func() {
		for range replies {
			_, _ = fmt.Fprintf(c.conn, "ECHO %s\r\n", text)
		}
	}()
	until(t, "replies that do not fit", func() bool { return e.Activity.Writing() })
	for range 10_000 {
		e.due.Add(1)
		e.Wake()
	}
	for got, note := 0, false; got < replies || !note; {
		switch v := c.read(); {
		case v.Text == text:
			got++
		case v.Text == "note 10000":
			note = true
		case !strings.HasPrefix(v.Text, "note "):
			t.Fatalf("got %.40s", v)
		}
	}
}
