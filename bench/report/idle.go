package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// IdleVersion is the version of the JSON form of Idle. It is raised when a field changes its meaning.
const IdleVersion = 1

// Idle is the cost of open connections on one or two servers.
type Idle struct {
	Version     int          `json:"idle_version"`
	Started     time.Time    `json:"started"`
	Host        Host         `json:"host"`
	Connections int          `json:"connections"`
	Servers     []IdleServer `json:"servers"`
}

// IdleServer is one of them. The sizes are resident bytes, without what the kernel has for the sockets.
type IdleServer struct {
	Addr    string  `json:"addr"`
	Version string  `json:"version"`
	Local   bool    `json:"local"`  // its usage is read from /proc, not from INFO
	Before  int64   `json:"before"` // the connections
	Open    int64   `json:"open"`   // while they are open
	Closed  int64   `json:"closed"` // after all were closed
	Seconds float64 `json:"connect_seconds"`
	Busy    float64 `json:"busy"` // processors that it used while they were idle
}

// PerConnection returns the bytes a connection.
func (i *Idle) PerConnection(server int) float64 {
	s := i.Servers[server]
	return float64(s.Open-s.Before) / float64(max(i.Connections, 1))
}

// Table writes the measurements for a person.
func (i *Idle) Table(w io.Writer) error {
	out := &strings.Builder{}
	fmt.Fprintf(out, "%s idle connections, after one PING each\n%s\n\n", Int(i.Connections), i.Host.line())
	rows := &grid{names: 2}
	rows.add("", "", "a connection", "before", "open", "closed", "connecting", "busy while idle")
	for k, s := range i.Servers {
		rows.add(string(rune('A'+k)), s.Version, Int(int(i.PerConnection(k)))+" B", Bytes(float64(s.Before)), Bytes(float64(s.Open)),
			Bytes(float64(s.Closed)), Rate(float64(i.Connections)/max(s.Seconds, 1e-6))+"/s", fmt.Sprintf("%.1f %%", s.Busy*100))
	}
	if len(i.Servers) == 2 && i.PerConnection(1) > 0 {
		rows.add("A/B", "", Significant(i.PerConnection(0)/i.PerConnection(1))+" x")
	}
	rows.write(out) // to memory: it cannot fail
	out.WriteString("\nresident memory of the server; the kernel's for the sockets is not in it\n")
	_, err := io.WriteString(w, out.String())
	return err
}

// Write writes the measurements as JSON.
func (i *Idle) Write(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(i)
}
