package format

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Term is one history of a log's past: ReplID names its bytes from Start to the start of the next term, or to the log's
// end.
type Term struct {
	ReplID ReplID
	Epoch  uint32
	Start  uint64
}

// Lineage is the past of a log: its terms, oldest first, the last one being what is appended now. Two logs hold the
// same bytes at the same offsets as far as they share terms, so two nodes find by their lineages alone how far they
// agree.
//
// Invariants: starts do not fall; an id stands once. A node begins a term when it is promoted, and at each start as a
// primary: a crash may have taken back bytes that a replica has, and their offsets must not be given to others under
// one name.
type Lineage struct {
	Replica bool // the frames come from a primary
	Terms   []Term
	// Cursors: the log may have records of cursors, of dropped ranges or ticks. Programs that do not know these must not read it.
	Cursors bool
	// NeedsSnapshot: the log, also if it begins at 0, does not give the state of the directory. A repair that cuts the log below its snapshot, or that
	// gives posts up, says so first. Each later snapshot has the missing changes, so the line stays true of this log until another log takes its place.
	NeedsSnapshot bool

	// What was begun and must be finished before the log is opened.
	Cutting      bool   // the log is being cut at cutAt
	CuttingAt    uint64 // offset
	CuttingChain uint32 // checksum of the frame that ends there
	Installing   InstallStep
}

// InstallStep is how far an installation is (past/install.go).
type InstallStep byte

const (
	InstallNone  InstallStep = iota
	InstallClear             // what was there is being removed
	InstallName              // what was staged gets its names
)

// maxTerms is how many terms are kept; the oldest are dropped first. A replica whose history is older gets a full copy.
const maxTerms = 256

// MaxLineageText bounds the text of a lineage, in bytes.
const MaxLineageText = maxTerms*100 + 256

// Current is the history of what is appended now. The zero value where there is no term.
func (l *Lineage) Current() History {
	if len(l.Terms) == 0 {
		return History{Replica: l.Replica}
	}
	t := l.Terms[len(l.Terms)-1]
	return History{ReplID: t.ReplID, Epoch: t.Epoch, Replica: l.Replica}
}

// At is the history of a frame that begins at a log offset: the oldest known history if that is forgotten, and the zero value if
// there is no term.
func (l *Lineage) At(start uint64) History {
	n := len(l.Terms)
	for n > 1 && l.Terms[n-1].Start > start {
		n--
	}
	if n == 0 {
		return History{Replica: l.Replica}
	}
	return History{ReplID: l.Terms[n-1].ReplID, Epoch: l.Terms[n-1].Epoch, Replica: l.Replica}
}

// Before is the history before the present one, and its end. ok is false if there is none.
func (l *Lineage) Before() (id ReplID, end uint64, ok bool) {
	n := len(l.Terms)
	if n < 2 {
		return id, 0, false
	}
	return l.Terms[n-2].ReplID, l.Terms[n-1].Start, true
}

// Begin returns the lineage with a new term, under a random id, from an offset on, as a primary's.
func (l *Lineage) Begin(at uint64) Lineage { return l.BeginAt(at, l.Current().Epoch+1) }

// BeginAt is Begin with a term of a given epoch.
func (l *Lineage) BeginAt(at uint64, epoch uint32) Lineage {
	next := l.Cut(at)
	next.Replica = false
	next.Add(Term{NewReplID(), epoch, at})
	return next
}

// Add makes t, which starts where the last term does or behind it, the last one. Of too many the oldest goes.
func (l *Lineage) Add(t Term) {
	l.Terms = append(l.Terms, t)
	if n := len(l.Terms); n > maxTerms {
		l.Terms = l.Terms[n-maxTerms:]
	}
}

// Begun says what was begun in the directory and must be finished before its log is opened (FinishBegun); "" if nothing
// was.
func (l *Lineage) Begun() string {
	switch {
	case l.Installing != InstallNone:
		return "taking over a primary's data"
	case l.Cutting:
		return fmt.Sprintf("cutting the log at offset %d", l.CuttingAt)
	}
	return ""
}

// Cut returns the lineage of the log's bytes below an offset. A term that begins there goes too.
func (l *Lineage) Cut(at uint64) Lineage {
	n := len(l.Terms)
	for n > 0 && l.Terms[n-1].Start >= at {
		n--
	}
	return Lineage{Replica: l.Replica, Terms: slices.Clone(l.Terms[:n]), Cursors: l.Cursors, NeedsSnapshot: l.NeedsSnapshot}
}

// End returns where term i of a log that ends at logEnd ends. A replica knows terms of its primary that begin behind the
// end of its own log: the log has nothing of them yet.
func (l *Lineage) End(i int, logEnd uint64) uint64 {
	if i+1 < len(l.Terms) {
		return min(l.Terms[i+1].Start, logEnd)
	}
	return logEnd
}

// Common returns the offset up to which two logs, which end at lEnd and oEnd, hold the same bytes. ok is false if they
// share no term.
func (l *Lineage) Common(lEnd uint64, o *Lineage, oEnd uint64) (offset uint64, ok bool) {
	for i := len(o.Terms) - 1; i >= 0; i-- {
		for j := range l.Terms {
			if l.Terms[j].ReplID == o.Terms[i].ReplID {
				return min(l.End(j, lEnd), o.End(i, oEnd)), true
			}
		}
	}
	return 0, false
}

// Begins tells whether a log of this lineage that ends at lEnd is the beginning of another log, which ends behind it:
// the two do not differ anywhere, and what this one lacks the other has.
func (l *Lineage) Begins(lEnd uint64, o *Lineage, oEnd uint64) bool {
	begun := l.Cut(lEnd + 1) // without terms of which the log has nothing yet
	n := len(begun.Terms)
	if n == 0 || oEnd <= lEnd || !slices.ContainsFunc(o.Terms, func(t Term) bool { return t.ReplID == begun.Terms[n-1].ReplID }) {
		return false // the last term is one that the other log does not have: it goes on differently
	}
	at, ok := begun.Common(lEnd, o, oEnd)
	return ok && at == lEnd
}

// The file HISTORY, and what nodes tell each other, is text:
//
//	counterd history <1|2|3>
//	replica <true|false>
//	records cursor                                 if the log may have records of cursors or dropped ranges: then it is version 2 at least
//	needs snapshot                                 if the log alone does not give the state: then it is version 3
//	cut <offset> chain <8 hex digits>              while a cut is not finished
//	install <clear|name>                           while an installation is not: what there was goes,
//	                                               what comes gets its names
//	term <40 hex digits> epoch <n> start <offset>  any number, at most 256
//	end crc32c <8 hex digits>
//
// HISTORY.copy has the same text. It is written first, and counts where HISTORY is damaged or gone, unless it is older than the log.
const (
	HistoryName    = "HISTORY"
	historyTitle   = "counterd history "
	historyVersion = 3
)

// AppendText appends the text to dst.
func (l *Lineage) AppendText(dst []byte) []byte {
	n := len(dst)
	version := 1 // as long as that says everything, so that programs that know no more can read it
	if l.Cursors {
		version = 2
	}
	if l.NeedsSnapshot {
		version = 3
	}
	dst = fmt.Appendf(dst, "%s%d\nreplica %t\n", historyTitle, version, l.Replica)
	if l.Cursors {
		dst = append(dst, "records cursor\n"...)
	}
	if l.NeedsSnapshot {
		dst = append(dst, "needs snapshot\n"...)
	}
	if l.Cutting {
		dst = fmt.Appendf(dst, "cut %d chain %08x\n", l.CuttingAt, l.CuttingChain)
	}
	switch l.Installing {
	case InstallClear:
		dst = append(dst, "install clear\n"...)
	case InstallName:
		dst = append(dst, "install name\n"...)
	}
	for _, t := range l.Terms {
		dst = fmt.Appendf(dst, "term %s epoch %d start %d\n", t.ReplID, t.Epoch, t.Start)
	}
	return fmt.Appendf(dst, "%s%08x\n", manifestEnd, Checksum(dst[n:]))
}

// ParseLineage reads the past of a log that another node tells. What that node has begun is not for this one to finish:
// a text that speaks of a cut or an installation gives a *CorruptError, and would empty the directory at its next
// start. name is for errors, which are as ReadLineage's.
func ParseLineage(name string, text []byte) (l Lineage, err error) {
	if l, err = DecodeLineage(name, text); err == nil && l.Begun() != "" {
		return Lineage{}, &CorruptError{File: name, Want: "a history and nothing that was begun", Got: strconv.Quote(clip(string(text)))}
	}
	return l, err
}

// DecodeLineage is the inverse of AppendText. name is for errors: a *CorruptError, or ErrUnsupportedFormat.
func DecodeLineage(name string, text []byte) (l Lineage, err error) {
	corrupt := func(want, got string) error {
		return &CorruptError{File: name, Want: want, Got: fmt.Sprintf("%q", clip(got))}
	}
	if len(text) > MaxLineageText {
		return l, corrupt(fmt.Sprintf("at most %d bytes", MaxLineageText), fmt.Sprint(len(text)))
	}
	end := bytes.LastIndex(text, []byte("\n"+manifestEnd)) + 1
	if end == 0 {
		return l, corrupt("a last line "+manifestEnd+"...", string(text))
	}
	if want, got := fmt.Sprintf(manifestEnd+"%08x\n", Checksum(text[:end])), string(text[end:]); want != got {
		return l, corrupt(want, got)
	}
	lines := strings.Split(strings.TrimSuffix(string(text[:end]), "\n"), "\n")
	var version uint32
	if n, _ := fmt.Sscanf(lines[0], historyTitle+"%d", &version); n != 1 {
		return l, corrupt(historyTitle+"...", lines[0])
	}
	if version < 1 || version > historyVersion {
		return l, &VersionError{File: name, Found: version, Oldest: 1, Newest: historyVersion}
	}
	for _, line := range lines[1:] {
		var id string
		var t Term
		word, _, _ := strings.Cut(line, " ")
		n := 0
		switch word {
		case "replica":
			n, _ = fmt.Sscanf(line, "replica %t", &l.Replica)
		case "records":
			if l.Cursors = line == "records cursor"; l.Cursors {
				n = 1
			}
		case "needs":
			if l.NeedsSnapshot = line == "needs snapshot"; l.NeedsSnapshot {
				n = 1
			}
		case "cut":
			n, _ = fmt.Sscanf(line, "cut %d chain %x", &l.CuttingAt, &l.CuttingChain)
			l.Cutting = true
			n--
		case "install":
			n = 1
			switch line {
			case "install clear":
				l.Installing = InstallClear
			case "install name":
				l.Installing = InstallName
			default:
				n = 0
			}
		case "term":
			n, _ = fmt.Sscanf(line, "term %s epoch %d start %d", &id, &t.Epoch, &t.Start)
			if t.ReplID, err = ParseReplID(id); err != nil {
				return l, corrupt("a replication id", line)
			}
			if k := len(l.Terms); k > 0 && l.Terms[k-1].Start > t.Start || k >= maxTerms || t.Start > maxCount {
				return l, corrupt("at most 256 terms, by start, which is at most 2^62", line)
			}
			l.Terms = append(l.Terms, t)
			n -= 2
		}
		if n != 1 {
			return l, corrupt("a line of a history", line)
		}
	}
	if !bytes.Equal(l.AppendText(nil), text) {
		return l, corrupt("the text as this program writes it", string(text))
	}
	return l, nil
}

// LineagePath returns the path of the file HISTORY.
func LineagePath(dir string) string { return filepath.Join(dir, HistoryName) }
