package format

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Healing is what the file HEALING of a data directory says: damage made the directory useless, its files are set aside,
// and the data of another node is to take their place. Until that is done, what the directory holds is not the data: it
// must not be served, led with or copied.
//
// The file is text:
//
//	counterd healing 1
//	step <aside|copy>          the files are being set aside; the data of another node is awaited
//	set <n> first <m>          the files are named *.damaged-<n>; set m has those of before the first damage, 0: not known
//	since <unix ms>
//	from <port> <host>         the node that has the data; without the line it is told in another way
//	lead <40 hex digits>       the node is the primary in that term, and leads again; or the line is missing
//	reason <text>              what was damaged, in one line
//	end crc32c <8 hex digits>
//
// A file that is there and cannot be read counts as the step aside: the directory must not be served either.
type Healing struct {
	Aside  bool   // the files are being set aside
	Set    uint64 // number of the set of files, from 1 on
	First  uint64 // set of this healing's first damage: those between are parts of copies. 0: not known, as HEALING was damaged
	Since  int64  // unix ms
	Host   string // of the node that has the data; empty: not said
	Port   int
	Lead   ReplID // the term in which this node is the primary; zero: it is to follow
	Reason string // one line
}

const (
	HealingName    = "HEALING"
	healingTitle   = "counterd healing "
	healingVersion = 1
	damagedInfix   = ".damaged-"
	maxReason      = 1 << 10

	// MaxHealing bounds the file, in bytes.
	MaxHealing = maxReason + 640
)

// HealingPath returns the path of the file HEALING.
func HealingPath(dir string) string { return filepath.Join(dir, HealingName) }

// Text is the file's content. The reason is cut to 1 KiB and made one line.
func (h *Healing) Text() []byte {
	step := "copy"
	if h.Aside {
		step = "aside"
	}
	reason := strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, h.Reason)
	b := fmt.Appendf(nil, "%s%d\nstep %s\nset %d first %d\nsince %d\n", healingTitle, healingVersion, step, h.Set, h.First, h.Since)
	if h.Host != "" {
		b = fmt.Appendf(b, "from %d %s\n", h.Port, h.Host)
	}
	if h.Lead != (ReplID{}) {
		b = fmt.Appendf(b, "lead %s\n", h.Lead)
	}
	b = fmt.Appendf(b, "reason %s\n", reason[:min(len(reason), maxReason)])
	return fmt.Appendf(b, "%s%08x\n", manifestEnd, Checksum(b))
}

// DecodeHealing is the inverse of Text. The error is a *CorruptError, or ErrUnsupportedFormat.
func DecodeHealing(name string, text []byte) (h Healing, err error) {
	corrupt := func(want, got string) (Healing, error) {
		return Healing{}, &CorruptError{File: name, Want: want, Got: fmt.Sprintf("%q", clip(got))}
	}
	end := strings.LastIndex(string(text), "\n"+manifestEnd) + 1
	if end == 0 {
		return corrupt("a last line "+manifestEnd+"...", string(text))
	}
	if want, got := fmt.Sprintf(manifestEnd+"%08x\n", Checksum(text[:end])), string(text[end:]); want != got {
		return corrupt(want, got)
	}
	lines := strings.Split(strings.TrimSuffix(string(text[:end]), "\n"), "\n")
	var version uint32
	if n, _ := fmt.Sscanf(lines[0], healingTitle+"%d", &version); n != 1 || len(lines) < 5 || len(lines) > 7 {
		return corrupt(healingTitle+"...", lines[0])
	}
	if version != healingVersion {
		return h, &VersionError{File: name, Found: version, Oldest: healingVersion, Newest: healingVersion}
	}
	h.Aside = lines[1] == "step aside"
	for _, line := range lines[4:] {
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "from":
			digits, host, _ := strings.Cut(rest, " ")
			h.Host = host
			h.Port, _ = strconv.Atoi(digits) // damage is found below
		case "lead":
			h.Lead, _ = ParseReplID(rest)
		case "reason":
			h.Reason = rest
		}
	}
	n, _ := fmt.Sscanf(lines[2]+" "+lines[3], "set %d first %d since %d", &h.Set, &h.First, &h.Since)
	if n != 3 || string(h.Text()) != string(text) {
		return corrupt("the text as this program writes it", string(text))
	}
	return h, nil
}

// DamagedName is the name of a file of a data directory that is set aside, in the n-th set.
func DamagedName(name string, n uint64) string { return fmt.Sprintf("%s%s%d", name, damagedInfix, n) }

// ParseDamaged is the inverse of DamagedName.
func ParseDamaged(full string) (name string, n uint64, ok bool) {
	at := strings.LastIndex(full, damagedInfix)
	if at <= 0 {
		return "", 0, false
	}
	if k, _ := fmt.Sscanf(full[at:], damagedInfix+"%d", &n); k != 1 {
		return "", 0, false
	}
	name = full[:at]
	return name, n, DamagedName(name, n) == full
}
