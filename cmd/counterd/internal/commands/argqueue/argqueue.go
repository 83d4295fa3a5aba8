// Package argqueue keeps the commands of a transaction until EXEC. They lie one behind the other in chunks of bytes:
//
//	number of the command's name, as the caller has it     uvarint
//	number of arguments                                    uvarint
//	each argument: its length, its bytes                   uvarint, bytes
//
// Ten thousand commands that were kept as slices of their arguments were 40,000 objects for the collector to look at. It ran once
// for each transaction of that size, for up to 0.6 ms at a time. Chunks have no pointers, and large ones are used again.
package argqueue

import (
	"encoding/binary"
	"iter"
	"math/bits"
	"slices"
	"sync"
)

const (
	firstChunk = 256      // most transactions are short
	chunkSize  = 64 << 10 // of all chunks but the first few, and those of larger commands
)

// Queue is commands in order. Each lies within one chunk.
type Queue struct {
	n      int
	chunks [][]byte
}

// free has chunks of chunkSize for the next queue.
var free = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// Len is the number of commands.
func (q *Queue) Len() int { return q.n }

// Add puts a copy of a command at the end.
func (q *Queue) Add(name int, args [][]byte) {
	size := 2 * binary.MaxVarintLen64
	for _, a := range args {
		size += 1 + bits.Len(uint(len(a)))/7 + len(a)
	}
	last := len(q.chunks) - 1
	if last < 0 || cap(q.chunks[last])-len(q.chunks[last]) < size {
		q.chunks = append(q.chunks, q.chunk(size))
		last++
	}
	b := binary.AppendUvarint(q.chunks[last], uint64(name))
	b = binary.AppendUvarint(b, uint64(len(args)))
	for _, a := range args {
		b = append(binary.AppendUvarint(b, uint64(len(a))), a...)
	}
	q.chunks[last] = b
	q.n++
}

// chunk returns an empty chunk for a command of at most so many bytes.
func (q *Queue) chunk(size int) []byte {
	want := firstChunk
	if n := len(q.chunks); n > 0 {
		want = min(2*cap(q.chunks[n-1]), chunkSize)
	}
	switch {
	case size > chunkSize:
		return make([]byte, 0, size)
	case max(size, want) > chunkSize/2:
		return free.Get().(*[chunkSize]byte)[:0]
	}
	return make([]byte, 0, max(size, want))
}

// All returns the commands in order. The slice of arguments is valid until the next command, the bytes of the arguments until Free.
func (q *Queue) All() iter.Seq2[int, [][]byte] {
	return func(yield func(int, [][]byte) bool) {
		var args [][]byte
		for _, b := range q.chunks {
			for len(b) > 0 {
				name, n := binary.Uvarint(b)
				count, m := binary.Uvarint(b[n:])
				b = b[n+m:]
				args = slices.Grow(args[:0], int(count))
				for range count {
					size, n := binary.Uvarint(b)
					end := n + int(size)
					args = append(args, b[n:end:end])
					b = b[end:]
				}
				if !yield(int(name), args) {
					return
				}
			}
		}
	}
}

// Free empties the queue, and lets others use its memory.
func (q *Queue) Free() {
	for _, b := range q.chunks {
		if cap(b) == chunkSize {
			free.Put((*[chunkSize]byte)(b[:chunkSize]))
		}
	}
	*q = Queue{}
}
