package server

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// BenchmarkTurn measures the whole way of INCR, from a socket to the socket, with so many in one packet.
func BenchmarkTurn(b *testing.B) {
	for _, depth := range []int{1, 64} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			s := wireServe(b, nil)
			c := wireDial(b, s, 2)
			c.want("SET 1.cntrn 1000000000", "+OK") // so that all replies are of one length
			packet := []byte(strings.Repeat("*2\r\n$4\r\nINCR\r\n$7\r\n1.cntrn\r\n", depth))
			replies := make([]byte, depth*len(":1000000000\r\n"))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.conn.Write(packet); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(c.conn, replies); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*depth), "ns/cmd")
		})
	}
}
