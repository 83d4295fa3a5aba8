package core

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/toplist"
	"github.com/counterd/counterd/counter/internal/window"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
)

// Whole changes what concerns all posts at once: the schema, and whether there are any. REQUIRES the batch to be open by
// BeginExclusive.
type Whole struct{ b *Batch }

// Whole is how b changes the schema, and removes all posts.
func (b *Batch) Whole() Whole { return Whole{b} }

// Alter changes the schema by one statement.
func (w Whole) Alter(st schema.Statement) error {
	b, d := w.b, w.b.data
	next, err := d.Schema.Load().Apply(st)
	if err != nil {
		return err
	}
	return d.alter(b, next)
}

// alter puts next, which comes from the present schema, in force and logs it. REQUIRES b open by BeginExclusive.
func (d *Data) alter(b *Batch, next *schema.Schema) error {
	if next == d.Schema.Load() {
		return nil
	}
	_, ticking := d.Time.Next(d.Schema.Load())
	if d.Log == nil {
		err := d.SetSchema(next)
		if err == nil {
			startTicks(b, ticking)
		}
		return err
	}
	if err := d.TakesChanges(); err != nil {
		return err
	}
	text := string(next.AppendText(nil))
	if len(text) > format.MaxSchemaText {
		return fmt.Errorf("counter: the schema would take %d bytes, want at most %d", len(text), format.MaxSchemaText)
	}
	if err := d.SetSchema(next); err != nil {
		return err
	}
	pos, err := d.Log.AppendSchema(text)
	if err != nil {
		return err
	}
	b.pos, d.Altered = pos, pos
	startTicks(b, ticking)
	return nil
}

// startTicks logs what time it is, so that derived columns count from now on. Where HISTORY does not admit that yet, it is left to the next tick.
// ticking: there were derived columns before. Then a clock far ahead is not believed here, as it would empty their windows.
func startTicks(b *Batch, ticking bool) {
	d := b.data
	now := d.Config.Now().Unix()
	if _, ok := d.Time.Next(d.Schema.Load()); !ok || ticking && now-d.Time.Seconds() > window.FarAhead && d.Time.Seconds() > 0 {
		return
	}
	if d.Log == nil || d.Cursors.Admitted.Load() {
		_ = b.Whole().Tick(now) // as above
	}
}

// maxCounterID bounds the ids of counters, which are never used again: spaces takes 24 bytes for each up to the highest,
// and a schema that a primary or a file brings may claim any. A counter that is dropped and made again each minute
// reaches it in two years.
const maxCounterID = 1 << 20

// CheckIDs refuses a schema whose counters' ids are too high.
func CheckIDs(s *schema.Schema) error {
	for _, def := range s.All() {
		if def.ID > maxCounterID {
			return fmt.Errorf("counter: %s would be counter %d of this data set, those dropped included, and there may be %d: dump the data into a new one", def.Name, def.ID, maxCounterID)
		}
	}
	return nil
}

// SetSchema puts next in force. REQUIRES gate held exclusively.
func (d *Data) SetSchema(next *schema.Schema) error {
	if err := CheckIDs(next); err != nil {
		return err
	}
	// Everything that can fail comes before the first change.
	var added []*schema.Counter
	for _, def := range next.All() {
		if int(def.ID) >= len(d.Spaces) || d.Spaces[def.ID] == nil {
			added = append(added, def)
		} else if _, err := block.OverlayLayout(def); err != nil {
			return err
		}
	}
	fresh, err := d.newSpaces(added)
	if err != nil {
		return err
	}
	for _, sp := range fresh {
		for int(sp[0].ID) >= len(d.Spaces) {
			d.Spaces = append(d.Spaces, nil)
		}
		d.Spaces[sp[0].ID] = sp
	}
	changed := false
	var lists []*toplist.List
	for _, def := range next.All() {
		sp := d.Spaces[def.ID]
		before := sp[0].Layout
		if err := sp.Define(def); err != nil {
			return err // never: it was tried above
		}
		changed = changed || sp[0].Layout != before
		if t := sp[0].Tops; t != nil {
			lists = append(lists, t.All...)
		}
	}
	d.Listed.Store(&lists)
	for id, sp := range d.Spaces {
		if sp != nil && next.CounterByID(uint32(id)) == nil {
			sp.Free()
			d.Spaces[id] = nil
		}
	}
	d.Schema.Store(next)
	if changed {
		d.wakeReshaping()
	}
	d.wakeLists()
	return nil
}

// renew puts empty keyspaces in the place of those chosen, or changes nothing. REQUIRES gate held exclusively.
func (d *Data) renew(chosen func(*block.Keyspace) bool) error {
	var fresh []*block.Keyspace
	for old := range d.Keyspaces {
		if !chosen(old) {
			continue
		}
		ks, err := block.NewKeyspace(&d.env, old.Columns, old.Group)
		if err != nil {
			for _, ks := range fresh {
				ks.Free()
			}
			return err
		}
		fresh = append(fresh, ks)
	}
	for _, ks := range fresh {
		place := &d.Spaces[ks.ID][ks.Group]
		(*place).Free()
		*place = ks
		d.resetLists(ks.Tops)
	}
	return nil
}

// Clear removes all items of all counters, or none on an error; the schema stays.
func (w Whole) Clear() error {
	b, d := w.b, w.b.data
	if d.Log != nil {
		if err := d.TakesChanges(); err != nil {
			return err
		}
		if len(d.Moving.Importing) > 0 { // what comes would go on, without what came
			return ErrImporting
		}
	}
	if err := d.renew(func(*block.Keyspace) bool { return true }); err != nil {
		return err
	}
	if d.Log != nil {
		b.pos = d.Log.AppendFlush()
		d.Altered = b.pos // that there is nothing is a change too
	}
	return nil
}

// Adopt puts a schema in force that was made elsewhere, of the same one as this store's: what it has not is dropped. text
// is its durable form (schema.Schema.AppendText).
func (w Whole) Adopt(text []byte) error {
	next, err := schema.ParseDurable(text)
	if err != nil {
		return err
	}
	if bytes.Equal(w.b.Schema().AppendText(nil), text) {
		return nil
	}
	return w.b.data.alter(w.b, next)
}

// AlterScript applies a schema script, all of it or nothing.
func (w Whole) AlterScript(script string) error {
	next, err := schema.ParseScript(strings.NewReader(script), w.b.Schema())
	if err != nil {
		return err
	}
	return w.b.data.alter(w.b, next)
}
