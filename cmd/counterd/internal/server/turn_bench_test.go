// Scenario: the way of an INCR from socket to socket is measured.

package server

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
)

// BenchmarkTurn measures the whole way of INCR, from a socket to the socket, with so many in one packet; with a number
// of its own, and with one of the connection.
func BenchmarkTurn(b *testing.B) {
	for _, depth := range []int{1, 64} {
		for _, form := range []string{"plain", "arguments", "connection"} {
			b.Run(fmt.Sprintf("depth=%d/form=%s", depth, form), func(b *testing.B) { benchmarkTurn(b, depth, form) })
		}
	}
}

func benchmarkTurn(b *testing.B, depth int, form string) {
	s := wireServe(b, nil)
	c := wireDial(b, s, 2)
	c.want("SET 1.cntrn 1000000000", "+OK") // so that all replies are of one length
	command := "*2\r\n$4\r\nINCR\r\n$7\r\n1.cntrn\r\n"
	const digits = "1099511627776"
	var numbers [][]byte
	switch form {
	case "arguments":
		command = "*5" + command[2:] + "$4\r\nIDMP\r\n$21\r\na-producer-of-20-byte\r\n$13\r\n" + digits + "\r\n"
	case "connection":
		c.want("CLIENT IDMP a-producer-of-20-byte "+digits, "+OK")
	}
	packet := []byte(strings.Repeat(command, depth))
	if form == "arguments" {
		for i := range depth {
			end := (i+1)*len(command) - 2
			numbers = append(numbers, packet[end-len(digits):end-len(digits):end])
		}
	}
	seq := int64(1 << 40)
	replies := make([]byte, depth*len(":1000000000\r\n"))
	b.ReportAllocs()
	for b.Loop() {
		for _, n := range numbers {
			seq++
			strconv.AppendInt(n, seq, 10)
		}
		if _, err := c.conn.Write(packet); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c.conn, replies); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*depth), "ns/cmd")
}
