// Package glob matches names as Redis does.
package glob

// MaxPattern is the longest pattern, in bytes, that commands should take from a client: matched texts have at most the
// same length, so that a match takes a millisecond. A pattern and a channel of 1 MiB each would take an hour.
const MaxPattern = 1 << 10

// Match is Redis's glob matching (util.c, stringmatchlen): * ? [abc] [^a-z] and \ to escape. Unlike the original it
// does not backtrack into earlier stars, so its time is at most len(pattern)*len(s) (CVE-2022-36021).
func Match(pattern, s string) bool {
	p, i := 0, 0
	star, mark := -1, 0
	for i < len(s) {
		if p < len(pattern) && pattern[p] == '*' {
			star, mark = p, i
			p++
			continue
		}
		if n, ok := matchOne(pattern[p:], s[i]); ok {
			p += n
			i++
			continue
		}
		if star < 0 {
			return false
		}
		mark++
		p, i = star+1, mark
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// EndsInStar tells whether the last thing that a pattern matches is a star, and not one that is escaped or in a class:
// then it also matches every longer text that begins with a match. It goes over a pattern as Match does, for which [b-]
// is no whole class: the range goes to the bracket.
func EndsInStar(pattern string) (star bool) {
	for p := 0; p < len(pattern); {
		n := 1
		if star = pattern[p] == '*'; !star {
			n, _ = matchOne(pattern[p:], 0)
		}
		p += n
	}
	return star
}

// matchOne matches one byte with the head of a pattern and returns how much of the pattern that took.
func matchOne(p string, ch byte) (n int, ok bool) {
	if p == "" {
		return 0, false
	}
	switch p[0] {
	case '?':
		return 1, true
	case '[':
		return matchClass(p, ch)
	case '\\':
		if len(p) > 1 {
			return 2, p[1] == ch
		}
	}
	return 1, p[0] == ch
}

// matchClass matches [...]. A class that is not closed ends with the pattern, as in Redis.
func matchClass(p string, ch byte) (n int, ok bool) {
	i := 1
	not := i < len(p) && p[i] == '^'
	if not {
		i++
	}
	found := false
	for ; i < len(p) && p[i] != ']'; i++ {
		switch {
		case p[i] == '\\' && i+1 < len(p):
			i++
			found = found || p[i] == ch
		case i+2 < len(p) && p[i+1] == '-':
			lo, hi := min(p[i], p[i+2]), max(p[i], p[i+2])
			found = found || lo <= ch && ch <= hi
			i += 2
		default:
			found = found || p[i] == ch
		}
	}
	return min(i+1, len(p)), found != not
}
