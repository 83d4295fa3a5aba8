package past

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// LongerLog says that a replica of this node was seen with more of the log than this node has. It is the content of the file LONGER, and of
// its copy, so that a restart does not forget it:
//
//	counterd longer log 1
//	history <40 hex digits>    the term of both logs
//	offset <n>                 the replica has the log up to there
//	address <port> <host>      the replica; a host may hold spaces
//	end crc32c <8 hex digits>
//
// The file counts while the log is in this term and ends before the offset. A primary begins another term at each start, so the file
// does not outlive the start that it is for.
type LongerLog struct {
	Term   format.ReplID
	Offset uint64 // 0: no replica was seen
	Host   string
	Port   int
}

const (
	// LongerName is the file.
	LongerName = "LONGER"

	longerTitle = "counterd longer log 1\n"
	maxLonger   = 1 << 10 // bytes of the file
)

// Beyond tells whether the replica has more of a log that ends at an offset in a term.
func (l *LongerLog) Beyond(term format.ReplID, end uint64) bool {
	return l.Term == term && l.Offset > end
}

func (l *LongerLog) text() []byte {
	b := fmt.Appendf([]byte(longerTitle), "history %s\noffset %d\naddress %d %s\n", l.Term, l.Offset, l.Port, l.Host)
	return fmt.Appendf(b, "end crc32c %08x\n", format.Checksum(b))
}

// parseLonger is the inverse of text.
func parseLonger(text []byte) (l LongerLog, ok bool) {
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		word, value, _ := bytes.Cut(line, []byte(" "))
		switch string(word) {
		case "history":
			l.Term, _ = format.ParseReplID(string(value)) // damage is found below
		case "offset":
			l.Offset, _ = strconv.ParseUint(string(value), 10, 64)
		case "address":
			port, host, _ := bytes.Cut(value, []byte(" "))
			l.Port, _ = strconv.Atoi(string(port))
			l.Host = string(host)
		}
	}
	return l, bytes.Equal(l.text(), text)
}

// ReadLonger reads LONGER in a directory, or else its copy. Without a file it returns the zero value. The error says that the file is
// there, and that neither can be read.
func ReadLonger(fsys vfs.FS, dir string) (LongerLog, error) {
	l, err := readLonger(fsys, filepath.Join(dir, LongerName))
	if err == nil {
		return l, nil
	}
	second, cerr := readLonger(fsys, filepath.Join(dir, LongerName+vfs.CopySuffix))
	switch {
	case cerr == nil:
		return second, nil
	case vfs.IsNotExist(err) && vfs.IsNotExist(cerr):
		return LongerLog{}, nil
	}
	return LongerLog{}, errors.Join(err, cerr)
}

func readLonger(fsys vfs.FS, name string) (LongerLog, error) {
	text, err := vfs.ReadFile(fsys, name, maxLonger)
	if err != nil {
		return LongerLog{}, err
	}
	l, ok := parseLonger(text)
	if !ok {
		return LongerLog{}, &format.CorruptError{File: name, Want: "the end of another log, and a checksum", Got: "others"}
	}
	return l, nil
}

// NoteLonger writes the file and its copy, durably. It writes nothing that is there already.
func NoteLonger(fsys vfs.FS, dir string, l LongerLog) error {
	if was, err := ReadLonger(fsys, dir); err == nil && was == l {
		return nil
	}
	return vfs.WriteTwice(fsys, filepath.Join(dir, LongerName), l.text())
}

// ForgetLonger removes the file and its copy, if one is there.
func ForgetLonger(fsys vfs.FS, dir string) error {
	path := filepath.Join(dir, LongerName)
	_, err := fsys.Stat(path)
	if _, cerr := fsys.Stat(path + vfs.CopySuffix); vfs.IsNotExist(err) && vfs.IsNotExist(cerr) {
		return nil
	}
	if err := vfs.RemoveTwice(fsys, path); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}
