package pubsub

import (
	"strings"
	"testing"
	"time"
)

// TestSubscribeBetweenSlices: while a message to many subscribers pauses, clients subscribe and unsubscribe. A subscription
// that ends gets no message behind its confirmation. A subscription that begins gets the next message.
func TestSubscribeBetweenSlices(t *testing.T) {
	for name, publish := range map[string]struct {
		kind Kind
		to   func(reg *Registry, message string, pause func()) int
	}{
		"channel": {Channel, func(reg *Registry, message string, pause func()) int {
			return reg.Publish("news", []byte(message), pause)
		}},
		"pattern": {Pattern, func(reg *Registry, message string, pause func()) int {
			return reg.Publish("news", []byte(message), pause)
		}},
		"shard": {Shard, func(reg *Registry, message string, pause func()) int {
			return reg.PublishShard("news", []byte(message), pause)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			const n = Slice + 40
			var reg Registry
			var subscribers [n]*Subscriber
			var conns [n]*reader
			for i := range conns {
				subscribers[i], conns[i] = subscriber(t, &reg)
				if err := reg.Subscribe(subscribers[i], publish.kind, names("news")); err != nil {
					t.Fatal(err)
				}
			}
			late, lateConn := subscriber(t, &reg)
			pauses := 0
			receivers := publish.to(&reg, "one", func() {
				pauses++
				changed := make(chan error, 1)
				go func() {
					for _, s := range subscribers {
						reg.Unsubscribe(s, publish.kind, names("news"))
					}
					changed <- reg.Subscribe(late, publish.kind, names("news"))
				}()
				select {
				case err := <-changed:
					if err != nil {
						t.Error(err)
					}
				case <-time.After(time.Minute):
					t.Error("SUBSCRIBE and UNSUBSCRIBE wait for a PUBLISH that pauses")
				}
			})
			if receivers != Slice || pauses != 1 {
				t.Errorf("%d receivers and %d pauses, want %d and 1", receivers, pauses, Slice)
			}
			if got := publish.to(&reg, "two", nil); got != 1 {
				t.Errorf("%d receivers of the next message, want the late one", got)
			}
			eventually(t, "the late one does not get the next message", func() bool {
				text, _, _ := lateConn.state()
				return strings.Contains(text, "two")
			})
			if text, _, _ := lateConn.state(); strings.Contains(text, "one") {
				t.Error("the late one got the first message")
			}
			got := 0
			for i, c := range conns {
				eventually(t, "an end of a subscription is not confirmed", func() bool {
					text, _, _ := c.state()
					return strings.Contains(text, "unsubscribe")
				})
				text, _, _ := c.state()
				if at := strings.Index(text, "one"); at >= 0 {
					if got++; at > strings.Index(text, "unsubscribe") {
						t.Errorf("subscriber %d got a message behind the end of its subscription", i)
					}
				}
			}
			if got != Slice {
				t.Errorf("%d got the first message, want %d", got, Slice)
			}
		})
	}
}
