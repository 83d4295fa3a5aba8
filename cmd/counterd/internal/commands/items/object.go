package items

import "github.com/counterd/counterd/counter"

// OBJECT tells how keys are stored: null for those that are absent.

var (
	// ObjectEncoding answers what Redis would for a number, and for a small hash.
	ObjectEncoding = object(func(c *Call, o *Owed) {
		if c.Batch.Op(int(o.op)).Column < 0 {
			c.Out.BulkString("listpack")
		} else {
			c.Out.BulkString("int")
		}
	})
	// ObjectRefCount answers 1.
	ObjectRefCount = object(func(c *Call, _ *Owed) { c.Out.Int(1) })
	// ObjectIdleTime answers an error, as accesses are not recorded.
	ObjectIdleTime = object(func(c *Call, _ *Owed) { c.Out.Error("ERR idle times are not tracked") })
	// ObjectFreq answers an error, as accesses are not counted.
	ObjectFreq = object(func(c *Call, _ *Owed) {
		c.Out.Error("ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies " +
			"at runtime LRU and LFU data will take some time to adjust.")
	})
)

// object answers null for keys that are absent and reply for the others.
func object(reply func(*Call, *Owed)) func(*Call, [][]byte) {
	found := func(c *Call, o *Owed) {
		op := c.result(o)
		if op == nil {
			return
		}
		if !op.Found {
			replyNull(c, o)
			return
		}
		reply(c, o)
	}
	return func(c *Call, args [][]byte) {
		if k, ok := c.key(args[2]); ok {
			c.owe(found, c.op(counter.OpExists, k, 0), 0)
		} else {
			c.owe(replyNull, 0, 0)
		}
	}
}
