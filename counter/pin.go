package counter

import (
	"maps"
	"sync"

	"github.com/counterd/counterd/persist/format"
)

// Pin keeps files and log from being removed while they are copied to a replica or into an archive.
type Pin struct {
	s        *Store
	Manifest *format.Manifest // the newest; nil: there is none, and the log goes back to its beginning
	names    map[string]struct{}
	from     uint64 // log offset from which on the log is kept
}

// pins are those not released yet.
type pins struct {
	// Innermost; held too while it is found out which files are orphans, as pinning a manifest is to come before or
	// behind.
	mu  sync.Mutex
	all map[*Pin]struct{}
}

// PinSnapshot pins the newest snapshot, and the log from its replay offset on.
func (r *Replication) PinSnapshot() (*Pin, error) {
	if r.s.dir == nil {
		return nil, ErrInMemory
	}
	p := &Pin{s: r.s, names: make(map[string]struct{})}
	r.pins.mu.Lock()
	defer r.pins.mu.Unlock()
	if m := r.s.dir.Manifests(); len(m) > 0 { // under mu: files go under it too
		p.Manifest, p.from = m[0], m[0].Replay
		_ = m[0].Files(func(_ *format.CounterFiles, b *format.BlockFile) error { // fn returns nil
			p.names[b.Name] = struct{}{}
			return nil
		})
	}
	r.pins.add(p)
	return p, nil
}

// PinLog pins the log from an offset on.
func (r *Replication) PinLog(from uint64) *Pin {
	p := &Pin{s: r.s, from: from}
	r.pins.mu.Lock()
	defer r.pins.mu.Unlock()
	r.pins.add(p)
	return p
}

// PinNames pins files that no manifest of the store names: what is being copied from a primary.
func (r *Replication) PinNames(names []string) *Pin {
	p := &Pin{s: r.s, names: make(map[string]struct{}), from: ^uint64(0)}
	for _, name := range names {
		p.names[name] = struct{}{}
	}
	r.pins.mu.Lock()
	defer r.pins.mu.Unlock()
	r.pins.add(p)
	return p
}

// Path returns where a file that the pinned manifest names is; ok is false for any other.
func (p *Pin) Path(tier format.Tier, name string) (path string, ok bool) {
	if _, ok := p.names[name]; !ok {
		return "", false
	}
	b := format.BlockFile{Tier: tier, Name: name}
	return b.Path(p.s.dir.Path()), true
}

// VerifyImages reads all images of the pinned snapshot, and returns what is wrong with them. Those that are damaged are
// written anew from memory, by a snapshot that it starts beside all other work.
func (p *Pin) VerifyImages() error {
	if p.Manifest == nil {
		return nil
	}
	return p.s.snapshots.verifyImages(p.s, p.Manifest, nil)
}

// Release ends the pin. It may be called twice.
func (p *Pin) Release() {
	p.s.repl.pins.mu.Lock()
	delete(p.s.repl.pins.all, p)
	p.s.repl.pins.mu.Unlock()
}

// add REQUIRES mu held.
func (p *pins) add(pin *Pin) {
	if p.all == nil {
		p.all = make(map[*Pin]struct{})
	}
	p.all[pin] = struct{}{}
}

// names returns the files that must stay. REQUIRES mu held.
func (p *pins) names() map[string]struct{} {
	names := make(map[string]struct{})
	for pin := range p.all {
		maps.Copy(names, pin.names)
	}
	return names
}

// from returns the lowest log offset that must stay, MaxUint64 if there is no pin.
func (p *pins) from() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := ^uint64(0)
	for pin := range p.all {
		from = min(from, pin.from)
	}
	return from
}
