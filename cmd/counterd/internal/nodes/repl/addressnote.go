package repl

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/counterd/counterd/persist/format"
)

// addressNote is the content of the files PRIMARY and HANDOVER, so that a restart does not forget them:
//
//	counterd note 1
//	address <port> <host>      a host may hold spaces
//	forced                     HANDOVER alone, or the line is missing
//	end crc32c <8 hex digits>
//
// A file of an older program has the port and the host in its first line, and perhaps forced in its second. It is read too.
type addressNote struct {
	Address
	forced bool
}

const (
	noteTitle      = "counterd note 1\n"
	noteForced     = "forced\n"
	maxAddressNote = 1 << 10
)

// text is the content of the file.
func (n addressNote) text() []byte {
	b := fmt.Appendf([]byte(noteTitle), "address %d %s\n", n.Port, n.Host)
	if n.forced {
		b = append(b, noteForced...)
	}
	return fmt.Appendf(b, "end crc32c %08x\n", format.Checksum(b))
}

// parseAddressNote is the inverse of text. Its errors match format.ErrCorrupt.
func parseAddressNote(text []byte) (addressNote, error) {
	lines, titled := bytes.CutPrefix(text, []byte(noteTitle))
	if titled {
		lines = bytes.TrimPrefix(lines, []byte("address "))
	}
	line, rest, _ := bytes.Cut(lines, []byte("\n"))
	digits, host, _ := bytes.Cut(line, []byte(" "))
	port, err := strconv.Atoi(string(digits))
	n := addressNote{Address{Host: string(host), Port: port}, bytes.HasPrefix(rest, []byte(noteForced))}
	switch {
	case err != nil || port < 0 || port > 65535 || len(host) == 0:
		return addressNote{}, fmt.Errorf("want a port and a host, got %q: %w", text, format.ErrCorrupt)
	case titled && !bytes.Equal(n.text(), text):
		return addressNote{}, fmt.Errorf("want %q, got %q: %w", n.text(), text, format.ErrCorrupt)
	case !titled && len(rest) > 0 && string(rest) != noteForced:
		return addressNote{}, fmt.Errorf("want %q or nothing behind the address, got %q: %w", noteForced, rest, format.ErrCorrupt)
	}
	return n, nil
}
