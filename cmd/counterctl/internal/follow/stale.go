package follow

import (
	"encoding/binary"
	"fmt"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
)

// staleMax bounds the keys that are stale: some 150 bytes each.
const staleMax = 1 << 20

// ref is a key of the source, or a field of one:
//
//	| length of the key, varint | key |     or     | length, varint | key | field, behind a # |
type ref string

func newRef(key, field []byte) ref {
	b := append(binary.AppendUvarint(make([]byte, 0, len(key)+len(field)+4), uint64(len(key))), key...)
	if field != nil {
		b = append(append(b, '#'), field...)
	}
	return ref(b)
}

// split returns the key and the field, which is nil where there is none; ok is whether it is a ref.
func (r ref) split() (key, field []byte, ok bool) {
	b := []byte(r)
	n, width := binary.Uvarint(b)
	if width <= 0 || n > uint64(len(b)-width) {
		return nil, nil, false
	}
	key, b = b[width:width+int(n)], b[width+int(n):]
	if len(b) == 0 {
		return key, nil, true
	}
	return key, b[1:], b[0] == '#'
}

// staleKey is a key whose number the target does not hold.
type staleKey struct {
	need  bool           // it is to be read
	at    uint64         // it was read: its value at that offset of the source; else 0
	items []mapping.Item // that
	fits  bool           // and whether that is all of its numbers
}

// staleKeys are all of them. See the package comment.
type staleKeys struct {
	keys  map[ref]*staleKey
	wants int   // that are to be read
	read  []ref // that were read and whose offset the stream has not come to
	added []ref // since the journal was written
	cured []ref
}

// add makes a key stale, to be read.
func (s *staleKeys) add(key ref, need bool) error {
	k := s.keys[key]
	if k == nil {
		if len(s.keys) >= staleMax {
			return fmt.Errorf("more than %d keys hold what their columns cannot: is the mapping right?", staleMax)
		}
		k = &staleKey{}
		s.keys[key] = k
		s.added = append(s.added, key)
	}
	if need && !k.need && k.at == 0 {
		k.need = true
		s.wants++
	}
	return nil
}

// cure makes a key one like others.
func (s *staleKeys) cure(key ref) {
	if k := s.keys[key]; k != nil {
		if k.need {
			s.wants--
		}
		delete(s.keys, key)
		s.cured = append(s.cured, key)
	}
}

// wanted lists keys that are to be read, some of them if they are many.
func (s *staleKeys) wanted(limit int) (keys []ref) {
	for key, k := range s.keys {
		if k.need {
			if keys = append(keys, key); len(keys) == limit {
				break
			}
		}
	}
	return keys
}

// found notes what a key was at an offset.
func (s *staleKeys) found(key ref, at uint64, items []mapping.Item, fits bool) {
	if k := s.keys[key]; k != nil && k.need {
		k.need, k.at, k.items, k.fits = false, at, items, fits
		s.wants--
		s.read = append(s.read, key)
	}
}

// settle puts a value that was read into the window in which the stream reaches the offset of the read. offset is where
// the stream is.
func (s *staleKeys) settle(offset uint64, put func(mapping.Item, ref) bool) {
	left := s.read[:0]
	for _, key := range s.read {
		k := s.keys[key]
		if k == nil || k.at == 0 {
			continue
		}
		if k.at > offset {
			left = append(left, key)
			continue
		}
		for _, i := range k.items {
			put(i, "")
		}
		if k.at, k.items = 0, nil; k.fits {
			s.cure(key)
		}
	}
	s.read = left
}
