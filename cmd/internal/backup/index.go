package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Index is a backup, as its JSON has it. Version 1: below. Invariant: every object that Files names was there, whole,
// before the index was.
type Index struct {
	Version   int        `json:"version"`
	Name      string     `json:"name"`           // <UTC time>-<log end>
	Created   time.Time  `json:"created"`        // later than that of every backup before, also where the clock is not
	Source    string     `json:"source"`         // host and directory
	History   string     `json:"history"`        // of the log's end: the id that INFO calls master_replid
	Past      string     `json:"past,omitempty"` // the text of HISTORY; not in indexes of older programs
	Until     time.Time  `json:"until,omitzero"` // all that was written before is in the backup; likewise
	LogFrom   uint64     `json:"log_from"`
	End       uint64     `json:"end"`    // of the log
	EndMS     int64      `json:"end_ms"` // when the last frame was written, ms since 1970; 0: there is none
	Snapshots []Snapshot `json:"snapshots"`
	Files     files      `json:"files"`
	Manifests []string   `json:"bad_manifests,omitempty"` // the faults of manifests that are left out
}

// Snapshot is a snapshot in the backup.
type Snapshot struct {
	Offset uint64 `json:"offset"`
	TimeMS int64  `json:"time_ms"`
}

// File is one of the directory's files.
type File struct {
	Path    string `json:"path"` // in the directory, with slashes
	Bytes   int64  `json:"bytes"`
	ModNS   int64  `json:"mod_ns"`            // time of its change; with Path, Bytes and CRC it tells whether it was read before
	CRC     uint32 `json:"crc,omitempty"`     // that a manifest names it by
	SHA256  string `json:"sha256"`            // of its content
	Damaged string `json:"damaged,omitempty"` // its damage in the source
	Stored  int64  `json:"stored"`            // bytes of the object
	fresh   bool   // this backup has put it
}

// object is the name of the object that holds a content.
func object(sum string) string { return "objects/" + sum[:2] + "/" + sum + ".zst" }

const (
	indexVersion = 1
	indexPrefix  = "backups/"
	indexSuffix  = ".json"
	// indexLimit bounds an index: 100 million posts are 2,000 files of 250 bytes; this is for four million files.
	indexLimit = 1 << 30
)

// ErrDamaged is a backup that cannot be trusted.
var ErrDamaged = errors.New("the backup is damaged")

// name is the name of a backup with its time and end.
func (x *Index) name() string {
	return fmt.Sprintf("%s-%d", x.Created.Format("20060102T150405.000Z"), x.End)
}

// Bytes are those of the files, and of their objects.
func (x *Index) Bytes() (raw, stored int64) {
	for _, f := range x.Files {
		raw += f.Bytes
		stored += f.Stored
	}
	return raw, stored
}

// Reaches tells whether a moment can be restored from the backup: a time, or where it is zero a log offset.
func (x *Index) Reaches(offset uint64, at time.Time) bool {
	first := Snapshot{Offset: x.LogFrom} // the log from its beginning needs no snapshot
	if x.LogFrom > 0 {
		if len(x.Snapshots) == 0 {
			return false
		}
		first = x.Snapshots[0]
	}
	if at.IsZero() {
		return first.Offset <= offset && offset <= x.End
	}
	return first.TimeMS <= at.UnixMilli() && at.Before(x.until())
}

// until is the moment up to which the backup has everything. The server writes what it is sent: until the log was read
// there was nothing behind the last frame.
func (x *Index) until() time.Time {
	if x.Until.IsZero() {
		return x.Created
	}
	return x.Until
}

// Window is the stretch of moments that a backup restores: log offsets, and times in ms since 1970. ok is false if there
// is none.
func (x *Index) Window() (from, to Snapshot, ok bool) {
	if x.LogFrom > 0 {
		if len(x.Snapshots) == 0 {
			return from, to, false
		}
		from = x.Snapshots[0]
	}
	to = Snapshot{x.End, max(x.EndMS, from.TimeMS)} // a snapshot may be made long after the last change
	return from, to, from.Offset <= to.Offset
}

// Problems lists damage in the source, which the backup copied as it was.
func (x *Index) Problems() []string {
	list := slices.Clone(x.Manifests)
	for _, f := range x.Files {
		if f.Damaged != "" {
			list = append(list, f.Damaged)
		}
	}
	return list
}

// write puts the index. It ends with a line that has the SHA-256 of all before.
func (x *Index) write(ctx context.Context, s Store) error {
	text, err := json.MarshalIndent(x, "", " ")
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	text = append(text, "\n"+hex.EncodeToString(sum[:])+"\n"...)
	return s.Put(ctx, indexPrefix+x.Name+indexSuffix, bytes.NewReader(text))
}

// read reads a backup's index.
func read(ctx context.Context, s Store, name string) (*Index, error) {
	r, err := s.Get(ctx, indexPrefix+name+indexSuffix)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, indexLimit+1))
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, err
	}
	x, err := parse(text)
	if err == nil && x.Name != name {
		err = fmt.Errorf("%w: it says it is %q", ErrDamaged, x.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: backup %s: %w", s, name, err)
	}
	return x, nil
}

func parse(text []byte) (*Index, error) {
	if len(text) > indexLimit {
		return nil, fmt.Errorf("%w: the index is longer than %d bytes", ErrDamaged, indexLimit)
	}
	end := bytes.LastIndexByte(bytes.TrimSuffix(text, []byte("\n")), '\n')
	if end < 0 {
		return nil, fmt.Errorf("%w: the index has no checksum", ErrDamaged)
	}
	sum := sha256.Sum256(text[:end])
	if want := strings.TrimSpace(string(text[end:])); want != hex.EncodeToString(sum[:]) {
		return nil, fmt.Errorf("%w: the index has checksum %x, want %.64s", ErrDamaged, sum, want)
	}
	var x Index
	if err := json.Unmarshal(text[:end], &x); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if x.Version != indexVersion {
		return nil, fmt.Errorf("got a backup of version %d, want %d: a newer counterctl made it", x.Version, indexVersion)
	}
	return &x, nil
}

// files are read one at a time: the first that is none ends the reading, so that an index of 1 GiB that lists "{}" takes
// no memory for 300 million files.
type files []File

// UnmarshalJSON implements json.Unmarshaler.
func (list *files) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if first, err := d.Token(); err != nil || first == nil {
		return err // null: none
	} else if first != json.Delim('[') {
		return fmt.Errorf("got %.40q, want a list of files", text)
	}
	for d.More() {
		var f File
		if err := d.Decode(&f); err != nil {
			return err
		}
		if err := f.check(); err != nil {
			return err
		}
		*list = append(*list, f)
	}
	return nil
}

// check refuses a file that is not one of a data directory.
func (f *File) check() error {
	if sum, err := hex.DecodeString(f.SHA256); err != nil || len(sum) != sha256.Size {
		return fmt.Errorf("%.200q has checksum %.100q", f.Path, f.SHA256)
	}
	if f.Path == "." || f.Path != path.Clean(f.Path) || path.IsAbs(f.Path) || f.Path == ".." || strings.HasPrefix(f.Path, "../") ||
		strings.ContainsFunc(f.Path, func(r rune) bool { return r == '\\' || unicode.IsControl(r) }) || f.Bytes < 0 || f.Bytes == math.MaxInt64 {
		return fmt.Errorf("a file is called %.200q and has %d bytes", f.Path, f.Bytes)
	}
	return nil
}

// List returns the backups of a place, oldest first. bad names the damaged ones, and the others are returned.
func List(ctx context.Context, s Store) (list []*Index, bad []error, err error) {
	var names []string
	err = s.List(ctx, indexPrefix, func(name string, _ int64) error {
		if base := path.Base(name); strings.HasSuffix(base, indexSuffix) {
			names = append(names, strings.TrimSuffix(base, indexSuffix))
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		x, err := read(ctx, s, name)
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if err != nil {
			bad = append(bad, err)
			continue
		}
		list = append(list, x)
	}
	slices.SortFunc(list, func(a, b *Index) int { return a.Created.Compare(b.Created) })
	return list, bad, nil
}
