package mapping

// Changes that commands make to keys, instead of their values. A follower of a server uses them.

// Added appends the item of an addition to a string's number. ok is false where the value is not one plain number.
func (m Match) Added(dst []Item, delta int64) (_ []Item, ok bool) {
	s, ok := m.group.rules[0].values.(single)
	if !ok || m.group.shape != String {
		return dst, false
	}
	return append(dst, Item{Mid: m.id, Value: delta, Column: uint16(s.column), Op: Add}), true
}

// PairAdded is Added for a hash's field or a sorted set's member. A field without a rule has no item, and is ok.
func (m Match) PairAdded(dst []Item, field []byte, delta int64) (_ []Item, ok bool) {
	for _, r := range m.group.rules {
		mid, fits, ok := m.mid(r, field)
		if !ok {
			continue
		}
		column := 0
		switch values := r.values.(type) {
		case single:
			column = values.column
		case score:
			column = values.column
		default:
			return dst, false
		}
		if fits {
			dst = append(dst, Item{Mid: mid, Value: delta, Column: uint16(column), Op: Add})
		}
		return dst, true
	}
	return dst, true
}

// Gone appends items that delete all numbers of the key. ok is false where its fields name posts: which those were is
// not known.
func (m Match) Gone(dst []Item) (_ []Item, ok bool) {
	for _, r := range m.group.rules {
		if r.field != nil && r.field.id != none {
			return dst, false
		}
	}
	for _, r := range m.group.rules {
		dst = deleted(dst, r, m.id)
	}
	return dst, true
}

// PairGone appends items that delete all numbers of a hash's field or a sorted set's member.
func (m Match) PairGone(dst []Item, field []byte) []Item {
	for _, r := range m.group.rules {
		if mid, fits, ok := m.mid(r, field); ok {
			if fits {
				dst = deleted(dst, r, mid)
			}
			return dst
		}
	}
	return dst
}

func deleted(dst []Item, r *rule, mid uint64) []Item {
	for _, c := range columnsOf(r.values) {
		if c >= 0 {
			dst = append(dst, Item{Mid: mid, Column: uint16(c), Op: Delete})
		}
	}
	return dst
}
