package logfile

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// A torn tail that a start cuts from the log is kept beside it, as what is cut cannot be made again:
//
//	torn-<offset>[-<n>].aof   a segment without padding, whose header has the log offset of the cut as start and as
//	                          durable offset, and 64 as capacity; behind it the bytes as they were, the one of log
//	                          offset x at 64 + x - start, zeros where there were none. The n-th at that offset
//
// No start reads it. KeepTorn of them are kept, those with the lowest offsets go first, and of one tail at most
// maxTornKept bytes.
const (
	TornPrefix  = "torn-"
	KeepTorn    = 4
	maxTornKept = 64 << 20
)

// tornName returns the base name of the n-th torn tail, from 1 on, that was cut at a log offset.
func tornName(at uint64, n int) string {
	again := ""
	if n > 1 {
		again = "-" + strconv.Itoa(n)
	}
	return fmt.Sprintf("%s%0*d%s%s", TornPrefix, format.OffsetDigits, at, again, format.SegmentSuffix)
}

// parseTornName is the inverse of tornName.
func parseTornName(name string) (at uint64, ok bool) {
	n := 1
	if k, _ := fmt.Sscanf(name, TornPrefix+"%d-%d", &at, &n); k < 1 {
		return 0, false
	}
	return at, tornName(at, n) == name
}

// IsTornTail tells whether a name in a data directory is of a file that keeps a torn tail.
func IsTornTail(name string) bool {
	_, ok := parseTornName(name)
	return ok
}

// KeepTail copies the torn tail that a walk found to a file of its own, durably, and returns its path.
func (w *Walker) KeepTail() (path string, err error) {
	at := w.Torn.LogOffset
	temp := filepath.Join(w.Dir, tornName(at, 1)+format.TempSuffix)
	if err := vfs.RemoveIfThere(w.FS, temp); err != nil {
		return "", err
	}
	to, err := w.FS.Create(temp)
	if err != nil {
		return "", err
	}
	h := format.SegmentHeader{History: w.Header.History, Start: at, Durable: at, Chain: w.CRC, Size: format.SegmentHeaderLen}
	if _, err = to.WriteAt(h.AppendTo(nil), 0); err == nil {
		err = w.copyTail(to, at)
	}
	if err == nil {
		err = to.Sync()
	}
	if err = errors.Join(err, to.Close()); err == nil {
		path, err = nameTail(w.FS, w.Dir, temp, at)
	}
	if err != nil {
		return "", errors.Join(err, vfs.RemoveIfThere(w.FS, temp))
	}
	return path, dropTorn(w.FS, w.Dir, filepath.Base(path))
}

// copyTail copies the bytes of the log from an offset on, as far as they are to be kept. Those of a segment reach up to
// where the next one starts.
func (w *Walker) copyTail(to vfs.File, at uint64) error {
	dest := Segment{Start: at}
	buf := make([]byte, ScanBufferLen)
	for i := range w.Segs {
		seg := w.Segs[i]
		end := at + maxTornKept
		if i+1 < len(w.Segs) {
			end = min(end, w.Segs[i+1].Start)
		}
		from, err := OpenSegmentFile(w.FS, &seg)
		if err != nil {
			return err
		}
		for pos := max(seg.Start, at); pos < end && err == nil; {
			var b []byte
			b, err = vfs.ReadAtMost(from, buf[:min(uint64(len(buf)), end-pos)], seg.Offset(pos))
			if len(b) == 0 {
				break
			}
			if used := format.TrimZeros(b); err == nil && len(used) > 0 {
				_, err = to.WriteAt(used, dest.Offset(pos))
			}
			pos += uint64(len(b))
		}
		if err = errors.Join(err, from.Close()); err != nil {
			return err
		}
	}
	return nil
}

// nameTail gives a torn tail a name that is free. A crash may have broken off the start that kept the same one: that one
// stays as it is.
func nameTail(fsys vfs.FS, dir, temp string, at uint64) (path string, err error) {
	for n := 1; ; n++ {
		path = filepath.Join(dir, tornName(at, n))
		same, err := vfs.SameContent(fsys, path, temp)
		switch {
		case vfs.IsNotExist(err):
			err = fsys.Rename(temp, path)
		case err == nil && same:
			err = fsys.Remove(temp)
		case err == nil:
			continue
		}
		if err != nil {
			return "", err
		}
		return path, fsys.SyncDir(dir)
	}
}

// dropTorn removes the torn tails that are too many. The one just kept stays.
func dropTorn(fsys vfs.FS, dir, newest string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	var others []string // by offset: the names begin with as many digits
	for _, name := range names {
		if IsTornTail(name) && name != newest {
			others = append(others, name)
		}
	}
	for len(others) >= KeepTorn {
		if err := vfs.RemoveIfThere(fsys, filepath.Join(dir, others[0])); err != nil {
			return err
		}
		others = others[1:]
	}
	return nil
}
