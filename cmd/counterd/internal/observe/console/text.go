package console

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/observe/facts"
)

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Bytes is a size for people, "1.5 GiB".
func Bytes(n uint64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n), 0
	for f >= 1024 && unit < 6 {
		f, unit = f/1024, unit+1
	}
	digits := 0
	if f < 10 {
		digits = 1
	}
	return fmt.Sprintf("%.*f %ciB", digits, f, "BKMGTPE"[unit])
}

// Span is a time for people, "2 h 5 min".
func Span(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}

// longestText is where a slow command is cut at the latest: facts.Clip cuts it exactly.
const longestText = 300

// SlowText is a command as one would type it: words with special characters are quoted, and invisible characters
// are escaped.
func SlowText(args []string) string {
	var b strings.Builder
	for i, a := range args {
		if i > 0 {
			b.WriteByte(' ')
		}
		ours := strings.HasPrefix(a, "(batch of ") || strings.HasPrefix(a, "... (") // words of package slowlog
		if quoted := strconv.Quote(a); len(quoted) > len(a)+2 || a == "" || strings.Contains(a, " ") && !ours {
			a = quoted
		}
		b.WriteString(a)
		if b.Len() > longestText {
			break
		}
	}
	return facts.Clip(b.String())
}
