// Scenario: pipelines and pages through a forward port are measured.

package server

import (
	"fmt"
	"testing"

	"github.com/counterd/counterd/internal/testkit/resptest"
)

// BenchmarkForward sends pipelines of 64 INCRs, and pages of 20 posts, to a forward port whose node has a third of them.
// Client, entry and owners share the processors.
func BenchmarkForward(b *testing.B) {
	for _, what := range []string{"INCR", "page"} {
		b.Run(what, func(b *testing.B) {
			k := serveForward(b, 3, nil)
			w := k.forward(0, 2)
			var all []byte
			n := 64
			if what == "page" {
				words := []string{"COUNTER.MGET", "weibo"}
				for i := range 20 {
					words = append(words, fmt.Sprint(1000+i))
				}
				n = 1
				all = resptest.Append(nil, words...)
			} else {
				for i := range n {
					all = resptest.Append(all, "INCR", fmt.Sprintf("%d.cntcm", 1000+i))
				}
			}
			for i := 0; i < b.N; i += n {
				if _, err := w.conn.Write(all); err != nil {
					b.Fatal(err)
				}
				for range n {
					line, err := w.r.ReadSlice('\n')
					if err != nil {
						b.Fatal(err)
					}
					if line[0] == '*' {
						for range 20 {
							if _, err := w.r.ReadSlice('\n'); err != nil {
								b.Fatal(err)
							}
						}
					}
				}
			}
		})
	}
}
