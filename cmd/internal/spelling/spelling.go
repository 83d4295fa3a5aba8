// Package spelling finds the name that a misspelt name was probably meant to be.
package spelling

import (
	"iter"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// MaxName is the length of the longest name that is compared.
const MaxName = 48

// Nearest returns the name that differs from wanted by the fewest mistakes, or an empty string. One mistake is allowed
// in a name of three to seven bytes, and two in a longer one, and none in its first byte. Shorter names could mean anything.
func Nearest(wanted string, names iter.Seq[string]) string {
	if len(wanted) < 3 || len(wanted) > MaxName {
		return ""
	}
	best, most := "", 1
	if len(wanted) > 7 {
		most = 2
	}
	for name := range names {
		if name == "" || name[0] != wanted[0] { // set is no misspelt get
			continue
		}
		if n := mistakes(wanted, name, most); n <= most && (best == "" || n < most) {
			best, most = name, n
		}
	}
	return best
}

// NearestFlag is Nearest among the flags of fs.
func NearestFlag(wanted string, fs *pflag.FlagSet) string {
	return Nearest(strings.ToLower(wanted), func(yield func(string) bool) {
		more := true
		fs.VisitAll(func(f *pflag.Flag) { more = more && yield(f.Name) })
	})
}

// mistakes is the number of bytes to insert, delete or replace, and of neighbours to exchange, that turn a into b. The
// result is more than most if the number is. REQUIRES that a is not longer than MaxName.
func mistakes(a, b string, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most || len(b) > MaxName {
		return most + 1
	}
	// rows[i%3][j] is the number for a[:i] and b[:j].
	var rows [3][MaxName + 1]int
	for j := range len(b) + 1 {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		row, above := &rows[i%3], &rows[(i-1)%3]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := above[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			row[j] = min(replaced, above[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], rows[(i-2)%3][j-2]+1)
			}
		}
		if slices.Min(row[:len(b)+1]) > most {
			return most + 1
		}
	}
	return rows[len(a)%3][len(b)]
}
