package persist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/counterd/counterd/persist/vfs"
)

// A torn tail that a start cuts from the log is kept beside it, as what is cut cannot be made again:
//
//	torn-<offset>[-<n>].aof   a segment without padding, whose header has the log offset of the cut as start and as
//	                          durable offset, and 64 as capacity; behind it the bytes as they were, the one of log
//	                          offset x at 64 + x - start, zeros where there were none. The n-th at that offset
//
// No start reads it. keepTorn of them are kept, those with the lowest offsets go first, and of one tail at most
// maxTornKept bytes.
const (
	tornPrefix  = "torn-"
	keepTorn    = 4
	maxTornKept = 64 << 20
)

// tornName returns the base name of the n-th torn tail, from 1 on, that was cut at a log offset.
func tornName(at uint64, n int) string {
	again := ""
	if n > 1 {
		again = "-" + strconv.Itoa(n)
	}
	return fmt.Sprintf("%s%0*d%s%s", tornPrefix, offsetDigits, at, again, segmentSuffix)
}

// parseTornName is the inverse of tornName.
func parseTornName(name string) (at uint64, ok bool) {
	n := 1
	if k, _ := fmt.Sscanf(name, tornPrefix+"%d-%d", &at, &n); k < 1 {
		return 0, false
	}
	return at, tornName(at, n) == name
}

// IsTornTail tells whether a name in a data directory is of a file that keeps a torn tail.
func IsTornTail(name string) bool {
	_, ok := parseTornName(name)
	return ok
}

// keepTail copies the torn tail that a walk found to a file of its own, durably, and returns its path.
func (w *walk) keepTail() (path string, err error) {
	at := w.torn.LogOffset
	temp := filepath.Join(w.dir, tornName(at, 1)+tempSuffix)
	if err := removeIfThere(w.fsys, temp); err != nil {
		return "", err
	}
	to, err := w.fsys.Create(temp)
	if err != nil {
		return "", err
	}
	h := segmentHeader{history: w.header.history, start: at, durable: at, chain: w.crc, size: segmentHeaderLen}
	if _, err = to.WriteAt(h.appendTo(nil), 0); err == nil {
		err = w.copyTail(to, at)
	}
	if err == nil {
		err = to.Sync()
	}
	if err = errors.Join(err, to.Close()); err == nil {
		path, err = nameTail(w.fsys, w.dir, temp, at)
	}
	if err != nil {
		return "", errors.Join(err, removeIfThere(w.fsys, temp))
	}
	return path, dropTorn(w.fsys, w.dir, filepath.Base(path))
}

// copyTail copies the bytes of the log from an offset on, as far as they are to be kept. Those of a segment reach up to
// where the next one starts.
func (w *walk) copyTail(to vfs.File, at uint64) error {
	dest := segment{start: at}
	buf := make([]byte, scanBufferLen)
	for i := range w.segs {
		seg := w.segs[i]
		end := at + maxTornKept
		if i+1 < len(w.segs) {
			end = min(end, w.segs[i+1].start)
		}
		from, err := openSegmentFile(w.fsys, &seg)
		if err != nil {
			return err
		}
		for pos := max(seg.start, at); pos < end && err == nil; {
			var b []byte
			b, err = readAtMost(from, buf[:min(uint64(len(buf)), end-pos)], seg.offset(pos))
			if len(b) == 0 {
				break
			}
			if used := trimZeros(b); err == nil && len(used) > 0 {
				_, err = to.WriteAt(used, dest.offset(pos))
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
		same, err := sameContent(fsys, path, temp)
		switch {
		case isNotExist(err):
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
	for len(others) >= keepTorn {
		if err := removeIfThere(fsys, filepath.Join(dir, others[0])); err != nil {
			return err
		}
		others = others[1:]
	}
	return nil
}

// TailFile tells whether a file is one that keeps a tail of a log, whatever it is called, and returns it for
// WalkDiverged. torn: it is what a start cut, of which no frame has to be whole.
func TailFile(fsys vfs.FS, path string) (d Diverged, torn, ok bool, err error) {
	file, err := fsys.Open(path)
	if err != nil {
		return d, false, false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	b, err := readAtMost(file, make([]byte, segmentHeaderLen), 0)
	if err != nil || len(b) < segmentHeaderLen {
		return d, false, false, err
	}
	start := binary.LittleEndian.Uint64(b[40:])
	h, fault, err := decodeSegmentHeader(b, path, start)
	if err != nil || fault != nil || h.size != segmentHeaderLen { // a segment of a log has room for frames
		return d, false, false, err
	}
	return Diverged{Path: path, Offset: start}, h.durable == start, true, nil
}
