package facts

import "strconv"

// longestText is the limit of texts that come from elsewhere, in bytes.
const longestText = 300

// Clip cuts a text that comes from elsewhere to a length that a console can show, not within a character.
func Clip(text string) string {
	if len(text) <= longestText {
		return text
	}
	n := longestText
	for n > 0 && text[n]&0xC0 == 0x80 {
		n--
	}
	return text[:n] + "…"
}

// Human is a size as Redis writes it: 1.50M.
func Human(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10) + "B"
	}
	f, unit := float64(n), 0
	for f >= 1024 && unit < 5 {
		f, unit = f/1024, unit+1
	}
	return strconv.FormatFloat(f, 'f', 2, 64) + "BKMGTP"[unit:unit+1]
}
