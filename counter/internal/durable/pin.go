package durable

import (
	"maps"
	"sync"

	"github.com/counterd/counterd/counter/internal/core"

	"github.com/counterd/counterd/persist/format"
)

// Pin keeps files and log from being removed while they are copied to a replica or into an archive.
type Pin struct {
	of       *Pins
	Manifest *format.Manifest // the newest; nil: there is none, and the log goes back to its beginning
	names    map[string]struct{}
	from     uint64 // log offset from which on the log is kept
	retain   uint64 // the same, as long as the disk has room
}

// Pins keep files and log from being removed while they are copied: those that are not released yet. All methods are safe
// for concurrent use.
type Pins struct {
	s      *core.Data
	verify func(m *format.Manifest) error // reads the images that a manifest names

	// Innermost; held too while it is found out which files are orphans, as pinning a manifest is to come before or
	// behind.
	mu  sync.Mutex
	all map[*Pin]struct{}
}

// NewPins makes pins of files and log of s. verify reads the images that a manifest names.
func NewPins(s *core.Data, verify func(m *format.Manifest) error) *Pins {
	return &Pins{s: s, verify: verify}
}

// PinSnapshot pins the newest snapshot, and the log from its replay offset on.
func (p *Pins) PinSnapshot() (*Pin, error) {
	if p.s.Dir == nil {
		return nil, core.ErrInMemory
	}
	pin := &Pin{of: p, names: make(map[string]struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.s.Dir.Manifests(); len(m) > 0 { // under mu: files go under it too
		pin.Manifest, pin.from = m[0], m[0].Replay
		_ = m[0].Files(func(_ *format.CounterFiles, b *format.BlockFile) error { // fn returns nil
			pin.names[b.Name] = struct{}{}
			return nil
		})
	}
	p.add(pin)
	return pin, nil
}

// PinLog pins the log from an offset on.
func (p *Pins) PinLog(from uint64) *Pin {
	pin := &Pin{of: p, from: from}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(pin)
	return pin
}

// PinNames pins files that no manifest of the store names, as they are being copied from a primary.
func (p *Pins) PinNames(names []string) *Pin {
	pin := &Pin{of: p, names: make(map[string]struct{}), from: ^uint64(0)}
	for _, name := range names {
		pin.names[name] = struct{}{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(pin)
	return pin
}

// add REQUIRES mu held.
func (p *Pins) add(pin *Pin) {
	if p.all == nil {
		p.all = make(map[*Pin]struct{})
	}
	pin.retain = pin.from
	p.all[pin] = struct{}{}
}

// fileNames returns the files that must stay. REQUIRES mu held.
func (p *Pins) fileNames() map[string]struct{} {
	names := make(map[string]struct{})
	for pin := range p.all {
		maps.Copy(names, pin.names)
	}
	return names
}

// from returns the lowest log offset that must stay, MaxUint64 if there is no pin.
func (p *Pins) from() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := ^uint64(0)
	for pin := range p.all {
		from = min(from, pin.from)
	}
	return from
}

// retainFrom is from, with the log that stays as long as the disk has room.
func (p *Pins) retainFrom() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := ^uint64(0)
	for pin := range p.all {
		from = min(from, pin.from, pin.retain)
	}
	return from
}

// Path returns where a file that the pinned manifest names is; ok is false for any other.
func (p *Pin) Path(tier format.Tier, name string) (path string, ok bool) {
	if _, ok := p.names[name]; !ok {
		return "", false
	}
	b := format.BlockFile{Tier: tier, Name: name}
	return b.Path(p.of.s.Dir.Path()), true
}

// VerifyImages reads all images of the pinned snapshot, and returns their faults. Those that are damaged are written anew
// from memory, by a snapshot that it starts beside all other work.
func (p *Pin) VerifyImages() error {
	if p.Manifest == nil {
		return nil
	}
	return p.of.verify(p.Manifest)
}

// RetainLog pins the log from an offset on too, until the disk is almost full.
func (p *Pin) RetainLog(from uint64) {
	p.of.mu.Lock()
	p.retain = from
	p.of.mu.Unlock()
}

// Release ends the pin. It may be called twice.
func (p *Pin) Release() {
	p.of.mu.Lock()
	delete(p.of.all, p)
	p.of.mu.Unlock()
}
