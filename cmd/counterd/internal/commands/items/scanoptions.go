package items

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/glob"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
)

// ScanOptions are those of SCAN and HSCAN.
type ScanOptions struct {
	Match string
	Count int    // of keys to look at
	Type  string // lower case; empty: any
}

// ParseScan reads options, TYPE among them if types; text is the error.
func ParseScan(args [][]byte, types bool) (o ScanOptions, text string) {
	o.Count, o.Match = 10, "*"
	for i := 0; i < len(args); i += 2 {
		if i+1 == len(args) {
			return o, ErrSyntax
		}
		switch {
		case resp.EqualFold(args[i], "COUNT"):
			n, ok := resp.Number(args[i+1])
			if !ok {
				return o, ErrNotInteger
			}
			if n < 1 {
				return o, ErrSyntax
			}
			o.Count = int(min(n, maxScanCount))
		case resp.EqualFold(args[i], "MATCH"):
			if len(args[i+1]) > glob.MaxPattern {
				return o, errLongPattern
			}
			o.Match = string(args[i+1])
		case resp.EqualFold(args[i], "TYPE") && types:
			o.Type = strings.ToLower(string(args[i+1]))
		default:
			return o, ErrSyntax
		}
	}
	return o, ""
}

var errLongPattern = fmt.Sprintf("ERR a pattern has at most %d bytes", glob.MaxPattern)

// maxScanCount bounds what one SCAN looks at, and so its reply and the time it takes: COUNT is a hint.
const maxScanCount = 10_000

// ParseCursor reads a cursor as strtoul does, and so Redis, but for the sign -: a cursor is a mid.
func ParseCursor(b []byte) (uint64, bool) {
	text := strings.TrimPrefix(string(b), "+")
	if text == "" {
		return 0, len(b) == 0
	}
	v, err := strconv.ParseUint(text, 10, 64)
	return v, err == nil
}
