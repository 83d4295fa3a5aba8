package main

import (
	"errors"
	"fmt"

	"github.com/counterd/counterd/cmd/counterctl/internal/human"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/snapfile"
)

func (d *dumper) printManifest(m *format.Manifest) {
	d.printf("manifest %s time %s offset %d replay %d history %s epoch %d\n", format.ManifestName(m.Generation), human.Clock(m.TimeMS), m.Offset, m.Replay,
		m.History.ReplID, m.History.Epoch)
	if m.OldReplID != (format.ReplID{}) {
		d.printf("  history before %s up to offset %d\n", m.OldReplID, m.OldEnd)
	}
	for _, line := range m.Schema {
		d.printf("  schema: %s\n", line)
	}
	for i := range m.Counters {
		c := &m.Counters[i]
		if d.dumpOptions.counter != "" && c.Name != d.dumpOptions.counter {
			continue
		}
		var items, bytes uint64
		for j := range c.Blocks {
			items += c.Blocks[j].Items
			bytes += c.Blocks[j].Bytes
		}
		d.printf("  counter %s id %d: %d files, %d rows, %s\n", c.Name, c.ID, len(c.Blocks), items, human.Size(bytes))
		for j := range c.Blocks {
			d.printf("    %s\n", blockText(m, &c.Blocks[j]))
		}
	}
	if p := m.Producers; p != nil {
		d.printf("  %s\n", producersText(p))
	}
}

// producersText describes the image of producers.
func producersText(b *format.BlockFile) string {
	return fmt.Sprintf("%d producers, offset %d bytes %d crc %08x file %s", b.Items, b.Offset, b.Bytes, b.CRC, b.Name)
}

// blockText describes a block file of a manifest.
func blockText(m *format.Manifest, b *format.BlockFile) string {
	group := ""
	if m.SlotGroups {
		group = fmt.Sprintf("group %d ", b.Group)
	}
	return group + fmt.Sprintf("%-7s block %d mids [%d, %s) rows %d offset %d bytes %d crc %08x file %s", b.Tier, b.Block, b.Lo, human.Mid(b.Hi), b.Items, b.Offset, b.Bytes, b.CRC, b.Name)
}

// printFiles prints what the newest manifest names: with rows, if they are wanted; else it only opens the files.
func (d *dumper) printFiles(manifests []*format.Manifest) error {
	if len(manifests) == 0 || !d.rows {
		return nil
	}
	return manifests[0].Files(func(c *format.CounterFiles, b *format.BlockFile) error {
		if b.Tier == format.TierProducers {
			return d.printProducers(b)
		}
		if b.Hi <= d.mids.Lo || b.Lo >= d.mids.Hi || d.dumpOptions.counter != "" && c.Name != d.dumpOptions.counter {
			return nil
		}
		d.printf("file %s counter %s\n", blockText(manifests[0], b), c.Name)
		err := d.printRows(c, b)
		if errors.Is(err, format.ErrCorrupt) {
			d.note("%v", err)
			return nil
		}
		return err
	})
}

// printProducers prints each producer's entry, the last used producer first.
func (d *dumper) printProducers(b *format.BlockFile) error {
	if d.filtered {
		return nil
	}
	d.printf("file %s\n", producersText(b))
	list, err := counter.ImageProducers(d.FS, b.Path(d.Path))
	if errors.Is(err, format.ErrCorrupt) {
		d.note("%v", err)
		return nil
	}
	for _, p := range list {
		d.printf("  producer %q epoch %d highest %d floor %d entries %d used %s\n", p.ID, p.Epoch, p.Highest, p.Floor, p.Entries, human.Clock(p.LastUsed*1000))
	}
	return err
}

func (d *dumper) printRows(c *format.CounterFiles, b *format.BlockFile) error {
	row := func(r counter.FileRow) error {
		if !d.wants(c.Name, r.Mid) {
			return nil
		}
		d.printf("  %s:%d", c.Name, r.Mid)
		if r.State != counter.RowPlain {
			d.printf(" (%s)", r.State)
		}
		if r.State != counter.RowGone {
			d.printf(" %s", d.names.values(c.ID, r.Columns))
		}
		d.printf("\n")
		return d.ctx.Err()
	}
	path := b.Path(d.Path)
	if b.Tier != format.TierCold {
		return counter.ImageRows(d.FS, path, row)
	}
	if err := counter.ColdVerifier(d.FS)(path, c, b); err != nil {
		var fault *snapfile.BlockFault
		if !errors.As(err, &fault) || fault.Unusable {
			return err
		}
		d.note("%v", err)
	}
	_, err := counter.ColdRows(d.FS, path, row)
	return err
}
