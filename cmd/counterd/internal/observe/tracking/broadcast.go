package tracking

import (
	"strconv"

	"github.com/counterd/counterd/schema"
)

// broadcast is the invalidations of a batch of changes for clients in BCAST mode: names by prefix. The zero value is
// ready.
type broadcast struct {
	byPrefix map[string][]string
	name     []byte
}

// collect adds the names of a change, as far as somebody asked for them.
func (p *prefixes) collect(told *broadcast, def *schema.Counter, mid, columns uint64) {
	if p.n.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	names(&told.name, def, mid, columns, func(name []byte) {
		key := ""
		for _, n := range p.lengths {
			if n > len(name) {
				break
			}
			if _, ok := p.clients[string(name[:n])]; !ok {
				continue
			}
			if key == "" {
				key = string(name)
			}
			if told.byPrefix == nil {
				told.byPrefix = make(map[string][]string)
			}
			told.byPrefix[key[:n]] = append(told.byPrefix[key[:n]], key)
		}
	})
}

// tell sends the collected names to the clients, except to self if it wants no messages of its own changes.
func (p *prefixes) tell(told *broadcast, self *Client, w *wakes) {
	if len(told.byPrefix) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for prefix, keys := range told.byPrefix {
		for c := range p.clients[prefix] {
			if c == self && c.noLoop() {
				continue
			}
			c.post(w, func(b *inbox) { b.group(prefix, keys) })
		}
	}
}

// names calls f with the names of some columns of an item, and of the item itself, as clients write them, buf being
// memory to make them in. A mid has no leading zeros in them.
//
//	MID.suffix NAME:MID.suffix     for each of the columns
//	MID NAME:MID                   the item; MID is also that of another counter than the first, which harms nobody
//	{MID}... {NAME:MID}... NAME:{MID}...
func names(buf *[]byte, def *schema.Counter, mid, columns uint64, f func(name []byte)) {
	for form := range 5 {
		b := (*buf)[:0]
		switch form {
		case 0: // MID
			b = strconv.AppendUint(b, mid, 10)
		case 1: // NAME:MID
			b = append(append(b, def.Name...), ':')
			b = strconv.AppendUint(b, mid, 10)
		case 2: // {MID}
			b = append(strconv.AppendUint(append(b, '{'), mid, 10), '}')
		case 3: // {NAME:MID}
			b = append(append(append(b, '{'), def.Name...), ':')
			b = append(strconv.AppendUint(b, mid, 10), '}')
		case 4: // NAME:{MID}
			b = append(append(append(b, def.Name...), ':'), '{')
			b = append(strconv.AppendUint(b, mid, 10), '}')
		}
		item := len(b)
		f(b)
		for i := range def.Width() {
			if columns&(1<<i) != 0 && def.Col(i).Suffix != "" {
				b = append(append(b[:item], '.'), def.Col(i).Suffix...)
				f(b)
			}
		}
		*buf = b
	}
}
