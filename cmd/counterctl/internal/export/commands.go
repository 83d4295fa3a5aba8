package export

import "github.com/counterd/counterd/internal/wire"

// commands are those that make an empty counterd what the source is, for redis-cli --pipe: the statements of the
// schema, and an HSET a post.
type commands struct {
	counter string // "NAME:"
	names   []string
}

func (c *commands) Start(dst []byte) []byte { return dst }

func (c *commands) Table(dst []byte, t *Table) []byte {
	c.counter, c.names = t.Counter.Name+":", c.names[:0]
	t.names(func(_ int, name string) { c.names = append(c.names, name) })
	for _, words := range t.script() {
		dst = wire.AppendCommand(dst, words...)
	}
	return dst
}

func (c *commands) Row(dst []byte, mid uint64, values []uint64) []byte {
	dst = wire.AppendArg(wire.AppendArray(dst, 2+2*len(values)), "HSET")
	dst = wire.AppendNamed(dst, c.counter, mid)
	for i, v := range values {
		dst = wire.AppendUint(wire.AppendArg(dst, c.names[i]), v)
	}
	return dst
}

func (c *commands) End(dst []byte) []byte    { return dst }
func (c *commands) Finish(dst []byte) []byte { return dst }
