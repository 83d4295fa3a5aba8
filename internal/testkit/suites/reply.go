package main

import (
	"bufio"
	"bytes"
	"io"
	"regexp"
	"strconv"
	"sync/atomic"
)

// replies copies the replies of a server to a client, with the names of the client in the place of keys.
type replies struct {
	names *names
	// integers are integer replies that become others: the borders of shards, in a cluster.
	integers map[string]string
	// raw: the stream is no RESP from here on. It is set before the command that begins it is sent.
	raw atomic.Bool
}

// maxKey bounds a bulk string that may be a key.
const maxKey = 32

// quoted is a key or a number in a line of MONITOR.
var quoted = regexp.MustCompile(`"[{]?[0-9]{13}[}.n]*"`)

// copy runs until one side ends.
func (p *replies) copy(client io.Writer, server io.Reader) error {
	r, w := bufio.NewReaderSize(server, 1<<16), bufio.NewWriterSize(client, 1<<16)
	pair := false // the line before began an array of two
	for {
		if r.Buffered() == 0 {
			if err := w.Flush(); err != nil {
				return err
			}
		}
		line, err := r.ReadSlice('\n')
		if err != nil || p.raw.Load() {
			_, _ = w.Write(line)
			_ = w.Flush()
			if err == nil || err == bufio.ErrBufferFull {
				_, err = r.WriteTo(client)
			}
			return err
		}
		first := pair
		pair = string(line) == "*2\r\n"
		size := -1
		switch line[0] {
		case ':':
			if to, ok := p.integers[string(bytes.TrimSpace(line[1:]))]; ok {
				line = append([]byte{':'}, to+"\r\n"...)
			}
		case '+':
			if bytes.Contains(line, []byte(` "`)) { // a line of MONITOR
				line = quoted.ReplaceAllFunc(line, func(q []byte) []byte {
					if name, ok := p.names.original(bytes.Trim(q, `"`)); ok {
						return strconv.AppendQuote(nil, name)
					}
					return q
				})
			}
		case '$', '=':
			if size, err = strconv.Atoi(string(bytes.TrimSpace(line[1:]))); err != nil {
				size = -1
			}
		}
		if size < 0 {
			_, _ = w.Write(line) // Flush returns its error
			continue
		}
		if size > maxKey {
			_, _ = w.Write(line)
			if _, err := io.CopyN(w, r, int64(size)+2); err != nil {
				return err
			}
			continue
		}
		head := bytes.Clone(line)
		body := make([]byte, size+2)
		if _, err := io.ReadFull(r, body); err != nil {
			return err
		}
		cursor := false // the one of a SCAN is no key, though it may be the id of a post
		if first {
			next, err := r.Peek(1) // there is a second element
			cursor = err == nil && next[0] == '*'
		}
		if name, ok := p.names.original(body[:size]); ok && !cursor {
			head, body = append(strconv.AppendInt([]byte{'$'}, int64(len(name)), 10), "\r\n"...), append([]byte(name), "\r\n"...)
		}
		_, _ = w.Write(head)
		_, _ = w.Write(body)
	}
}
