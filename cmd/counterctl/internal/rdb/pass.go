package rdb

import "fmt"

// passValue passes over the value of a type that nobody wants.
func (r *reader) passValue(kind byte) error {
	switch kind {
	case typeString, typeListZiplist, typeSetIntset, typeZsetZiplist, typeHashZiplist, typeHashZipmap, typeHashListpack, typeZsetListpack, typeSetListpack:
		return r.passString()
	case typeList, typeSet, typeListQuicklist:
		return r.each(r.passString)
	case typeHash:
		return r.each(r.passString, r.passString)
	case typeZset:
		return r.each(r.passString, func() error { return r.textScore(nil) })
	case typeZset2:
		return r.each(r.passString, func() error { return r.pass(8) })
	case typeListQuicklist2:
		return r.each(r.passCount, r.passString)
	case typeModule2:
		return r.passModule()
	case typeStream, typeStream2, typeStream3:
		return r.passStream(kind)
	case typeHashTTL:
		if r.valkey {
			return r.each(r.passString, r.passString, func() error { return r.pass(8) })
		}
		return r.each(r.passCount, r.passString, r.passString)
	case typeHashMinTTL:
		if err := r.pass(8); err != nil {
			return err
		}
		return r.each(r.passCount, r.passString, r.passString)
	case typeHashListpackTTL:
		if !r.valkey {
			return r.passString()
		}
	case typeHashListpackMinTTL:
		if err := r.pass(8); err != nil {
			return err
		}
		return r.passString()
	}
	return r.unknownType(kind)
}

// unknownType is the error for a type whose end cannot be found.
func (r *reader) unknownType(kind byte) error {
	what := fmt.Sprintf("type %d", kind)
	switch {
	case kind == typeModule:
		what = "a value of a module, as Redis 4.0 wrote them before its release"
	case kind == 26 || kind == 27:
		what = fmt.Sprintf("a stream, type %d, of Redis 8.6 or later", kind)
	}
	return fmt.Errorf("%w: %s, key %.60q at offset %d, in a file of version %s: a running server of any version can be read by its commands instead: import redis://HOST",
		ErrUnsupported, what, r.key, r.offset(), r.version)
}

// each reads a count and so often what parts read.
func (r *reader) each(parts ...func() error) error {
	n, err := r.count()
	if err != nil {
		return err
	}
	for ; n > 0; n-- {
		for _, part := range parts {
			if err := part(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reader) passCount() error {
	_, err := r.count()
	return err
}

// Parts of a module's data.
const (
	moduleEnd = iota
	moduleInt
	moduleUint
	moduleFloat
	moduleDouble
	moduleString
)

// passModule passes over the id of a module and its data.
func (r *reader) passModule() error {
	if err := r.passCount(); err != nil {
		return err
	}
	for {
		part, err := r.count()
		if err != nil {
			return err
		}
		switch part {
		case moduleEnd:
			return nil
		case moduleInt, moduleUint:
			err = r.passCount()
		case moduleFloat:
			err = r.pass(4)
		case moduleDouble:
			err = r.pass(8)
		case moduleString:
			err = r.passString()
		default:
			err = r.corrupt("part %d in what a module wrote", part)
		}
		if err != nil {
			return err
		}
	}
}

// passStream passes over a stream: its listpacks, its length and ids, its groups with their pending entries and consumers.
func (r *reader) passStream(kind byte) error {
	counts := 3 // length, last id
	if kind != typeStream {
		counts = 8 // first id, highest deleted id, entries ever added
	}
	if err := r.each(r.passString, r.passString); err != nil {
		return err
	}
	for range counts {
		if err := r.passCount(); err != nil {
			return err
		}
	}
	pending := func() error { // 16 bytes of id, 8 of time, deliveries
		if err := r.pass(24); err != nil {
			return err
		}
		return r.passCount()
	}
	consumer := func() error {
		if err := r.passString(); err != nil {
			return err
		}
		times := uint64(8)
		if kind == typeStream3 {
			times = 16
		}
		if err := r.pass(times); err != nil {
			return err
		}
		return r.each(func() error { return r.pass(16) })
	}
	return r.each(func() error { // group
		if err := r.passString(); err != nil {
			return err
		}
		counts := 2 // last id
		if kind != typeStream {
			counts = 3 // entries read
		}
		for range counts {
			if err := r.passCount(); err != nil {
				return err
			}
		}
		if err := r.each(pending); err != nil {
			return err
		}
		return r.each(consumer)
	})
}
