package schema

// suggestMax is how much of a key is looked at for a suggestion: the text goes into an error.
const suggestMax = 3*MaxName + 32

// Suggest returns the key that a user may have meant by one that ParseKey does not know. ok is false if there is none.
// It takes the words of b, whatever parts them, as in post:123:likes: one is a mid, another the suffix or name of a
// column, and a third may be the name of a counter. Where no column is named it answers the first one, as an example.
func (s *Schema) Suggest(b []byte) (k Key, ok bool) {
	words := splitWords(b[:min(len(b), suggestMax)])
	mid, found := uint64(0), false
	var named *Counter
	for _, w := range words {
		if v, ok := ParseMid(w); ok && !found {
			mid, found = v, true
		} else if c := s.names[string(w)]; c != nil && named == nil {
			named = c
		}
	}
	if !found {
		mid = 123
	}
	for i := len(words) - 1; i >= 0; i-- {
		if c, col := s.columnCalled(words[i], named); c != nil {
			return Key{c, col, mid}, true
		}
	}
	c := named
	if c == nil {
		c = s.first
	}
	if c == nil || len(c.Columns) == 0 {
		return Key{}, false
	}
	return Key{c, 0, mid}, true
}

// columnCalled is the column with that suffix or name, of the counter if one is given and of any counter otherwise.
func (s *Schema) columnCalled(word []byte, only *Counter) (*Counter, int) {
	if a := s.suffixes.find(word, len(word)); a.counter != nil && (only == nil || a.counter == only) {
		return a.counter, a.col
	}
	for _, c := range s.counters {
		if col, ok := c.Field(word); ok && (only == nil || c == only) {
			return c, col
		}
	}
	return nil, 0
}

// splitWords are the runs of bytes that may stand in names.
func splitWords(b []byte) (words [][]byte) {
	for len(b) > 0 {
		n := 0
		for n < len(b) && isWord(b[n]) {
			n++
		}
		if n > 0 {
			words = append(words, b[:n])
		}
		b = b[min(n+1, len(b)):]
	}
	return words
}
