package format

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/counterd/counterd/internal/slot"
)

// A manifest is a text file, so that a person can read what a snapshot is made of: one fact a line, in this order.
//
//	counterd manifest <1|2|3|4|5|6|7>
//	generation <n>
//	replid <40 hex digits> epoch <n> replica <true|false>
//	replid2 <40 hex digits> end <offset>
//	time <ms>
//	offset <n> replay <n>
//	log packed                                              if segments of the log may be: then it is version 3
//	groups 256                                              if the blocks of counters are of groups: then it is version 5
//	next-counter <n> next-block <n>
//	schema "<statement>"                                    any number
//	gone groups <ranges>                                    if there are any: then it is version 4
//	importing "<move>" groups <ranges>                      any number: then it is version 4
//	cursor "<name>" offset <n> time <ms> position "<text>"  any number: then it is version 6
//	tick <seconds>                                          if there was one: then it is version 7
//	counter <id> next-column <n> name "<name>"              any number, each with its blocks
//	group <0..255>                                          before the blocks of each group that has some
//	<hot|cold|overlay> <block> lo <n> hi <n> offset <n> items <n> bytes <n> crc <8 hex> file "<name>"
//	producers <block> offset <n> items <n> bytes <n> crc <8 hex> file "<name>"    if there are any: then it is version 2
//	end crc32c <8 hex digits>
//
// Numbers are decimal, strings are quoted as in Go. The checksum covers every byte before "end". A later version keeps
// the first line, the last line and what the checksum covers.
const (
	manifestTitle   = "counterd manifest "
	manifestVersion = 7
	manifestEnd     = "end crc32c "

	// MaxManifest bounds a manifest's text, in bytes: about 500,000 blocks.
	MaxManifest = 64 << 20
)

// AppendText appends the manifest's text to dst.
func (m *Manifest) AppendText(dst []byte) []byte {
	n := len(dst)
	line := func(format string, args ...any) { dst = fmt.Appendf(dst, format+"\n", args...) }
	version := 1 // as long as that says everything, so that programs that know no more can read it
	if m.Producers != nil {
		version = 2
	}
	if m.LogPacked {
		version = 3
	}
	if len(m.Moving) > 0 {
		version = 4
	}
	if m.SlotGroups {
		version = 5
	}
	if len(m.Cursors) > 0 {
		version = 6
	}
	if m.Tick > 0 {
		version = 7
	}
	line(manifestTitle+"%d", version)
	line("generation %d", m.Generation)
	line("replid %s epoch %d replica %t", m.History.ReplID, m.History.Epoch, m.History.Replica)
	line("replid2 %s end %d", m.OldReplID, m.OldEnd)
	line("time %d", m.TimeMS)
	line("offset %d replay %d", m.Offset, m.Replay)
	if m.LogPacked {
		line("log packed")
	}
	if m.SlotGroups {
		line("groups %d", slot.Groups)
	}
	line("next-counter %d next-block %d", m.NextCounter, m.NextBlock)
	for _, s := range m.Schema {
		line("schema %q", s)
	}
	for _, v := range m.Moving {
		if v.Move == "" {
			line("gone groups %s", v.Groups)
		} else {
			line("importing %q groups %s", v.Move, v.Groups)
		}
	}
	for _, c := range m.Cursors {
		line("cursor %q offset %d time %d position %q", c.Name, c.Offset, c.TimeMS, c.Position)
	}
	if m.Tick > 0 {
		line("tick %d", m.Tick)
	}
	for _, c := range m.Counters {
		line("counter %d next-column %d name %q", c.ID, c.NextColumn, c.Name)
		for i, b := range c.Blocks {
			if m.SlotGroups && (i == 0 || b.Group != c.Blocks[i-1].Group) {
				line("group %d", b.Group)
			}
			line("%s %d lo %d hi %d offset %d items %d bytes %d crc %08x file %q",
				b.Tier, b.Block, b.Lo, b.Hi, b.Offset, b.Items, b.Bytes, b.CRC, b.Name)
		}
	}
	if p := m.Producers; p != nil {
		line("%s %d offset %d items %d bytes %d crc %08x file %q", TierProducers, p.Block, p.Offset, p.Items, p.Bytes, p.CRC, p.Name)
	}
	line(manifestEnd+"%08x", Checksum(dst[n:]))
	return dst
}

// ParseManifest is the inverse of AppendText. name is for errors: a *CorruptError, or ErrUnsupportedFormat.
func ParseManifest(name string, text []byte) (*Manifest, error) {
	corrupt := func(off int, want, got string) error {
		return &CorruptError{File: name, Offset: int64(off), Want: want, Got: got}
	}
	end := bytes.LastIndex(text, []byte("\n"+manifestEnd)) + 1
	if end == 0 {
		return nil, corrupt(len(text), "a last line "+manifestEnd+"...", "none")
	}
	if want, got := fmt.Sprintf(manifestEnd+"%08x\n", Checksum(text[:end])), string(text[end:]); want != got {
		return nil, corrupt(end, strconv.Quote(want), strconv.Quote(clip(got)))
	}
	p := manifestParser{rest: string(text[:end])}
	p.expect(manifestTitle)
	version := p.number(32)
	if p.fault == "" && version > manifestVersion {
		return nil, &VersionError{File: name, Found: uint32(version), Oldest: 1, Newest: manifestVersion}
	}
	m := p.manifest()
	if p.fault == "" && !bytes.Equal(m.AppendText(nil), text) {
		p.fault = "the text as this program writes it"
	}
	if p.fault != "" {
		return nil, corrupt(end-len(p.rest), p.fault, strconv.Quote(clip(p.rest)))
	}
	if len(m.Schema) > 0 {
		if err := checkSchema(name+" (schema)", []byte(m.Schema[0])); err != nil {
			return nil, err
		}
	}
	if err := m.Validate(); err != nil {
		return nil, &CorruptError{File: name, Want: "a valid manifest", Got: "broken rules", Err: err}
	}
	return m, nil
}

// clip shortens a text for an error.
func clip(s string) string { return s[:min(len(s), 40)] }

// manifestParser reads the text from the front. After the first fault it reads nothing more: fault says what was
// wanted at rest.
type manifestParser struct {
	rest  string
	fault string
}

// expect reads a fixed text.
func (p *manifestParser) expect(s string) {
	if p.fault != "" {
		return
	}
	rest, ok := strings.CutPrefix(p.rest, s)
	if !ok {
		p.fault = strconv.Quote(s)
		return
	}
	p.rest = rest
}

// word reads up to a space or line end.
func (p *manifestParser) word() string {
	if p.fault != "" {
		return ""
	}
	i := strings.IndexAny(p.rest, " \n")
	if i < 0 {
		p.fault = "a word and a line end"
		return ""
	}
	w := p.rest[:i]
	p.rest = p.rest[i:]
	return w
}

// parsed notes that a word did not parse. The text before it counts as the place.
func (p *manifestParser) parsed(err error, word, want string) {
	if err != nil && p.fault == "" {
		p.fault, p.rest = want, word+p.rest
	}
}

func (p *manifestParser) number(bits int) uint64 {
	w := p.word()
	n, err := strconv.ParseUint(w, 10, bits)
	p.parsed(err, w, fmt.Sprintf("a number of %d bits", bits))
	return n
}

func (p *manifestParser) replid() ReplID {
	w := p.word()
	id, err := ParseReplID(w)
	p.parsed(err, w, "a replication id")
	return id
}

func (p *manifestParser) groups() slot.Set {
	w := p.word()
	g, err := slot.ParseSet(w)
	p.parsed(err, w, "ranges of groups")
	return g
}

func (p *manifestParser) quoted() string {
	if p.fault != "" {
		return ""
	}
	q, err := strconv.QuotedPrefix(p.rest)
	if err == nil {
		var s string
		if s, err = strconv.Unquote(q); err == nil {
			p.rest = p.rest[len(q):]
			return s
		}
	}
	p.fault = "a quoted text"
	return ""
}

// At reports whether the next line begins with a key.
func (p *manifestParser) at(key string) bool { return p.fault == "" && strings.HasPrefix(p.rest, key) }

// manifest reads everything behind the version. Fields are read in the order of the text.
func (p *manifestParser) manifest() *Manifest {
	m := &Manifest{}
	field := p.field
	m.Generation = field("\ngeneration ", 64)
	p.expect("\nreplid ")
	m.History.ReplID = p.replid()
	m.History.Epoch = uint32(field(" epoch ", 32))
	p.expect(" replica ")
	m.History.Replica = p.word() == "true"
	p.expect("\nreplid2 ")
	m.OldReplID = p.replid()
	m.OldEnd = field(" end ", 64)
	m.TimeMS = int64(field("\ntime ", 63))
	m.Offset = field("\noffset ", 64)
	m.Replay = field(" replay ", 64)
	if p.at("\nlog ") {
		p.expect("\nlog packed")
		m.LogPacked = true
	}
	if p.at("\ngroups ") {
		p.expect("\ngroups " + strconv.Itoa(slot.Groups))
		m.SlotGroups = true
	}
	m.NextCounter = uint32(field("\nnext-counter ", 32))
	m.NextBlock = field(" next-block ", 64)
	for p.at("\nschema ") {
		p.expect("\nschema ")
		m.Schema = append(m.Schema, p.quoted())
	}
	for gone := p.at("\ngone "); gone || p.at("\nimporting "); gone = false {
		var v MovingGroups
		if gone {
			p.expect("\ngone")
		} else {
			p.expect("\nimporting ")
			v.Move = p.quoted()
		}
		p.expect(" groups ")
		v.Groups = p.groups()
		m.Moving = append(m.Moving, v)
	}
	for p.at("\ncursor ") {
		var c Cursor
		p.expect("\ncursor ")
		c.Name = p.quoted()
		c.Offset = field(" offset ", 64)
		c.TimeMS = int64(field(" time ", 63))
		p.expect(" position ")
		c.Position = p.quoted()
		m.Cursors = append(m.Cursors, c)
	}
	if p.at("\ntick ") {
		m.Tick = field("\ntick ", 64)
	}
	for p.at("\ncounter ") {
		c := CounterFiles{ID: uint32(field("\ncounter ", 32)), NextColumn: uint16(field(" next-column ", 16))}
		p.expect(" name ")
		c.Name = p.quoted()
		group := uint8(0)
		for {
			if m.SlotGroups && p.at("\ngroup ") {
				group = uint8(field("\ngroup ", 8))
			}
			tier := p.tier()
			if tier == "" {
				break
			}
			b := BlockFile{Tier: tier, Group: group, Block: field("\n"+string(tier)+" ", 64)}
			b.Lo = field(" lo ", 64)
			b.Hi = field(" hi ", 64)
			p.file(&b)
			c.Blocks = append(c.Blocks, b)
		}
		m.Counters = append(m.Counters, c)
	}
	if key := "\n" + string(TierProducers) + " "; p.at(key) {
		m.Producers = &BlockFile{Tier: TierProducers, Block: field(key, 64)}
		p.file(m.Producers)
	}
	p.expect("\n")
	if p.fault == "" && p.rest != "" {
		p.fault = "the end"
	}
	return m
}

// field reads a key and its number.
func (p *manifestParser) field(key string, bits int) uint64 {
	p.expect(key)
	return p.number(bits)
}

// File reads what a line says of a file.
func (p *manifestParser) file(b *BlockFile) {
	b.Offset = p.field(" offset ", 64)
	b.Items = p.field(" items ", 64)
	b.Bytes = p.field(" bytes ", 64)
	p.expect(" crc ")
	w := p.word()
	crc, err := strconv.ParseUint(w, 16, 32)
	p.parsed(err, w, "8 hexadecimal digits")
	b.CRC = uint32(crc)
	p.expect(" file ")
	b.Name = p.quoted()
}

// tier returns the tier that the next line begins with, "" if it is no block's line.
func (p *manifestParser) tier() Tier {
	for _, t := range [...]Tier{TierHot, TierCold, TierOverlay} {
		if p.at("\n" + string(t) + " ") {
			return t
		}
	}
	return ""
}

// Text returns the manifest for others: as its file has it, but for what it says of the directory's log.
func (m *Manifest) Text() []byte {
	alone := *m
	alone.LogPacked = false
	return alone.AppendText(nil)
}
