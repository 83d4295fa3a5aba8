package hot

func (t *Table) packed(s Ref, col *column) uint64 {
	return loadBits(t.base, t.at(uint64(s>>3))+headerBytes, uint(s&7)*uint(t.width)+uint(col.off), uint(col.width))
}

func (t *Table) overKey(s Ref, c int) uint64 { return uint64(s)*uint64(t.count) + uint64(c) }

// Get returns column c (an index into Layout) of the item at s.
func (t *Table) Get(s Ref, c int) uint64 {
	col := t.column(c)
	v := t.packed(s, col)
	if v == col.mark() {
		return t.over.get(t.overKey(s, c))
	}
	return v
}

// AppendRow appends all columns of the item at s, in the order of Layout.
func (t *Table) AppendRow(dst []uint64, s Ref) []uint64 {
	off := t.at(uint64(s>>3)) + headerBytes
	bit := uint(s&7) * uint(t.width)
	if t.oneWord {
		bit += uint(t.rest)
		w := load64(t.base, off+uintptr(bit>>3)) >> (bit & 7)
		for c := range int(t.count) {
			col := t.column(c)
			v := w & col.mask()
			w >>= col.width & 63
			if v == col.mark() {
				v = t.over.get(t.overKey(s, c))
			}
			dst = append(dst, v)
		}
		return dst
	}
	for c := range int(t.count) {
		col := t.column(c)
		v := loadBits(t.base, off, bit+uint(col.off), uint(col.width))
		if v == col.mark() {
			v = t.over.get(t.overKey(s, c))
		}
		dst = append(dst, v)
	}
	return dst
}

// Limit is the largest value of column c.
func (t *Table) Limit(c int) uint64 { return t.layout.Fields[c].Limit() }

// preset is the value of column c of an item where it was never set.
func (t *Table) preset(c int) uint64 { return t.layout.Fields[c].Default }

// Set stores v, at most Limit(c), in column c of the item at s.
func (t *Table) Set(s Ref, c int, v uint64) {
	col := t.column(c)
	if col.plain != 0 {
		if mark := col.mark(); v >= mark {
			t.over.set(t.overKey(s, c), v)
			v = mark
		} else if t.over.n != 0 && t.packed(s, col) == mark {
			t.over.delete(t.overKey(s, c))
		}
	}
	storeBits(t.base, t.at(uint64(s>>3))+headerBytes, uint(s&7)*uint(t.width)+uint(col.off), uint(col.width), v)
}
