package tracking

// maxInbox is the most that an inbox holds, in bytes. Beyond it, the inbox is replaced by one null, which means all
// keys. It is some 10,000 keys.
const maxInbox = 1 << 20

// keySize is the assumed memory of a key in an inbox besides its bytes.
const keySize = 64

// inbox is the messages that a client was not sent yet. A null comes first and replaces all messages before it.
type inbox struct {
	null   bool
	keys   []string       // one by one, as they were invalidated
	groups []group        // of BCAST
	index  map[string]int // of groups by prefix; nil: few groups
	broken int64          // number of the connection that is to be told in this one's place and is gone; 0: none
	bytes  int
}

// group is the keys of one prefix.
type group struct {
	prefix string
	keys   []string
	seen   map[string]struct{} // nil: few keys
}

// few is how many keys are looked through one by one.
const few = 8

// Told is the messages to a client, in this order.
type Told struct {
	All    bool       // a null: all keys
	Keys   []string   // a message each
	Groups [][]string // a message each
	Broken int64      // the connection of REDIRECT that is gone; 0: none
}

func (b *inbox) empty() bool {
	return !b.null && len(b.keys) == 0 && len(b.groups) == 0 && b.broken == 0
}

func (b *inbox) all() { *b = inbox{null: true, broken: b.broken} }

// key adds one.
func (b *inbox) key(key string) {
	if b.grow(key) {
		b.keys = append(b.keys, key)
	}
}

// grow counts a key; false: there are too many.
func (b *inbox) grow(key string) bool {
	if b.bytes += len(key) + keySize; b.bytes > maxInbox {
		b.all()
		return false
	}
	return true
}

// group adds keys of a prefix that are not in it yet.
func (b *inbox) group(prefix string, keys []string) {
	n := b.find(prefix)
	if n == len(b.groups) {
		b.groups = append(b.groups, group{prefix: prefix})
		b.indexed(n)
	}
	for _, key := range keys {
		if b.groups[n].has(key) {
			continue
		}
		if !b.grow(key) {
			return
		}
		b.groups[n].add(key)
	}
}

// find is the index of the group of a prefix, or the number of groups.
func (b *inbox) find(prefix string) int {
	if b.index != nil {
		if n, ok := b.index[prefix]; ok {
			return n
		}
		return len(b.groups)
	}
	n := 0
	for n < len(b.groups) && b.groups[n].prefix != prefix {
		n++
	}
	return n
}

// indexed notes that group n was added. The first index is made of all groups.
func (b *inbox) indexed(n int) {
	switch {
	case b.index != nil:
		b.index[b.groups[n].prefix] = n
	case n == few:
		b.index = make(map[string]int)
		for i, g := range b.groups {
			b.index[g.prefix] = i
		}
	}
}

func (g *group) has(key string) bool {
	if g.seen != nil {
		_, ok := g.seen[key]
		return ok
	}
	for _, k := range g.keys {
		if k == key {
			return true
		}
	}
	return false
}

func (g *group) add(key string) {
	g.keys = append(g.keys, key)
	switch {
	case g.seen != nil:
		g.seen[key] = struct{}{}
	case len(g.keys) > few:
		g.seen = make(map[string]struct{})
		for _, k := range g.keys {
			g.seen[k] = struct{}{}
		}
	}
}

func (b *inbox) take() Told {
	t := Told{All: b.null, Keys: b.keys, Broken: b.broken}
	for _, g := range b.groups {
		if len(g.keys) > 0 {
			t.Groups = append(t.Groups, g.keys)
		}
	}
	*b = inbox{}
	return t
}
