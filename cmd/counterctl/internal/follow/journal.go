package follow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/counterd/counterd/persist/vfs"

	"github.com/counterd/counterd/internal/atomicfile"
)

// note is a line of the journal. A missing field says nothing.
type note struct {
	Job      string   `json:"job,omitempty"`      // the source and the rules; the first line
	Copying  bool     `json:"copying,omitempty"`  // a copy has begun: earlier notes mean nothing
	Copied   bool     `json:"copied,omitempty"`   // it is complete
	Replid   string   `json:"replid,omitempty"`   // the source's history
	Producer string   `json:"producer,omitempty"` // whose numbers are offsets
	DB       *int     `json:"db,omitempty"`       // selected at Offset
	Window   *uint64  `json:"window,omitempty"`   // where the window begins that is sent next
	After    *uint64  `json:"after,omitempty"`    // nothing is to be applied between this offset and Offset
	Offset   uint64   `json:"offset,omitempty"`
	Stale    [][]byte `json:"stale,omitempty"` // keys
	Fresh    [][]byte `json:"fresh,omitempty"` // keys that are stale no more
}

// state is the content of a journal.
type state struct {
	job      string
	copying  bool // a copy has begun, ever
	copied   bool
	replid   string
	producer string
	start    uint64      // offset of the copy
	selected []selection // by offset; the last few
	window   uint64      // where the window began that was sent last
	idle     [2]uint64   // nothing is to be applied from the first to the second
	stale    map[ref]bool
}

// selection is which database was selected at an offset.
type selection struct {
	offset uint64
	db     int
}

func (s *state) apply(n *note) {
	if n.Job != "" {
		s.job = n.Job
	}
	if n.Copying {
		*s = state{job: s.job, copying: true, stale: map[ref]bool{}}
	}
	if n.Copied {
		s.copied, s.start, s.window = true, n.Offset, n.Offset
	}
	if n.Window != nil {
		s.window = *n.Window
	}
	if n.Replid != "" {
		s.replid = n.Replid
	}
	if n.Producer != "" {
		s.producer = n.Producer
	}
	if n.DB != nil {
		s.selected = append(s.selected, selection{n.Offset, *n.DB})
	}
	if n.After != nil {
		s.idle = [2]uint64{*n.After, n.Offset}
	}
	for _, key := range n.Stale {
		s.stale[ref(key)] = true
	}
	for _, key := range n.Fresh {
		delete(s.stale, ref(key))
	}
}

// errLost: the target lost acknowledged changes.
var errLost = errors.New("the target does not have what it acknowledged")

// resume tells where to go on when the target says up to which offset it has everything; known is false where it knows
// nothing of the producer. Commands between from and applied were applied, but for additions that the target may have
// refused without anybody having noted that.
func (s *state) resume(last uint64, known bool) (from, applied uint64, db int, err error) {
	if applied = last; s.idle[0] == applied {
		applied = max(applied, s.idle[1])
	}
	if !known || applied < s.window {
		return 0, 0, 0, errLost
	}
	for _, sel := range s.selected {
		if sel.offset <= s.window {
			db = sel.db
		}
	}
	return s.window, applied, db, nil
}

// journal is a file of notes, one a line. Nothing relied on an entry that a crash left unfinished at its end.
type journal struct {
	path  string
	lock  io.Closer // of the directory
	file  *os.File
	state state
	size  int64 // of the file
}

const journalName = "journal"

// openJournal reads the journal of a directory, which is made where there is none.
func openJournal(dir, job string) (*journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := vfs.OS().Lock(filepath.Join(dir, "lock"))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("%s: another process follows by it", dir)
	} else if err != nil {
		return nil, err
	}
	j := &journal{path: filepath.Join(dir, journalName), lock: lock, state: state{stale: map[ref]bool{}}}
	if err := j.open(dir, job); err != nil {
		lock.Close()
		return nil, err
	}
	return j, nil
}

func (j *journal) open(dir, job string) error {
	f, err := os.OpenFile(j.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	if err := j.state.read(text); err != nil {
		return fmt.Errorf("%s: %w: remove %s to begin anew with a whole copy", j.path, err, dir)
	}
	if j.state.job != "" && j.state.job != job {
		return fmt.Errorf("%s belongs to another job, %s: want %s, or another directory", j.path, j.state.job, job)
	}
	j.state.job = job
	return j.compact()
}

var errJournal = errors.New("it is damaged")

// read applies all whole lines.
func (s *state) read(text []byte) error {
	for line := 1; ; line++ {
		one, rest, whole := bytes.Cut(text, []byte{'\n'})
		if !whole {
			return nil
		}
		n := note{}
		if err := json.Unmarshal(one, &n); err != nil {
			return fmt.Errorf("%w: line %d: %w", errJournal, line, err)
		}
		s.apply(&n)
		text = rest
	}
}

// compact writes the state as a new file in the place of the old one.
func (j *journal) compact() error {
	s := &j.state
	slices.SortStableFunc(s.selected, func(a, b selection) int { return int(min(max(int64(a.offset-b.offset), -1), 1)) })
	notes := []note{{Job: s.job}}
	if s.copying {
		notes = append(notes, note{Copying: true})
	}
	if s.copied {
		notes = append(notes, note{Copied: true, Offset: s.start, Replid: s.replid, Producer: s.producer})
		s.selected = s.selected[max(0, len(s.selected)-64):]
		for _, sel := range s.selected {
			notes = append(notes, note{DB: &sel.db, Offset: sel.offset})
		}
		notes = append(notes, note{Window: &s.window})
		if s.idle[1] > 0 {
			notes = append(notes, note{After: &s.idle[0], Offset: s.idle[1]})
		}
		for key := range s.stale {
			notes = append(notes, note{Stale: [][]byte{[]byte(key)}})
		}
	}
	var text []byte
	for i := range notes {
		text = notes[i].append(text)
	}
	temp, err := os.OpenFile(j.path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = temp.Write(text)
	if err = errors.Join(err, temp.Sync()); err == nil {
		err = os.Rename(temp.Name(), j.path)
	}
	if err == nil {
		err = atomicfile.SyncDir(filepath.Dir(j.path))
	}
	if err != nil {
		return errors.Join(err, temp.Close())
	}
	if j.file != nil {
		j.file.Close()
	}
	j.file, j.size = temp, int64(len(text))
	return nil
}

func (n *note) append(dst []byte) []byte {
	line, err := json.Marshal(n)
	if err != nil {
		panic("follow: BUG: " + err.Error()) // numbers, strings and bytes
	}
	return append(append(dst, line...), '\n')
}

// compactAt is the size of a journal that is written anew.
const compactAt = 4 << 20

// write adds a note; durable is whether it must be on the disk when write returns.
func (j *journal) write(n note, durable bool) error {
	j.state.apply(&n)
	text := n.append(nil)
	if _, err := j.file.Write(text); err != nil {
		return err
	}
	if j.size += int64(len(text)); j.size > compactAt {
		err := j.compact()
		j.size /= 2 // a state that is large itself is not written with each note
		return err
	}
	if !durable {
		return nil
	}
	return j.file.Sync()
}

// copied notes in one entry that a copy is complete and which database is selected after it. After a crash between two
// entries, commands of that database would be taken for commands of database 0.
func (j *journal) copied(full fullCopy, producer string, db int) error {
	return j.write(note{Copied: true, Offset: full.offset, Replid: full.replid, Producer: producer, DB: &db}, true)
}

func (j *journal) close() error { return errors.Join(j.file.Close(), j.lock.Close()) }
