package procstat

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/internal/wire"
)

// Usage is the processor time and memory that a server has used so far.
type Usage struct {
	User, System time.Duration // processor time
	RSS          int64         // resident bytes
}

// CPU returns the processor time in all.
func (u Usage) CPU() time.Duration { return u.User + u.System }

// Read reads the Usage of a process on this machine. Processor time is counted in steps of 10 ms.
func Read(pid int) (Usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, err
	}
	return parseStat(stat)
}

// parseStat reads /proc/PID/stat: "pid (name) state ..." of 52 fields, where the name may hold anything.
func parseStat(stat []byte) (Usage, error) {
	const (
		ticks  = time.Second / 100 // USER_HZ, which Linux fixes for all its user-visible counters
		utime  = 14 - 3            // field numbers of proc(5), less those up to the name's end
		stime  = 15 - 3
		rssPos = 24 - 3
	)
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= rssPos {
		return Usage{}, fmt.Errorf("stat of a process has %d fields, want over %d: %.80q", len(fields), rssPos, stat)
	}
	user, err1 := strconv.ParseInt(string(fields[utime]), 10, 64)
	system, err2 := strconv.ParseInt(string(fields[stime]), 10, 64)
	pages, err3 := strconv.ParseInt(string(fields[rssPos]), 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return Usage{}, fmt.Errorf("stat of a process: %w", err)
	}
	return Usage{User: time.Duration(user) * ticks, System: time.Duration(system) * ticks, RSS: pages * int64(os.Getpagesize())}, nil
}

// ReadPrivate reads the resident bytes of a process on this machine that are no pages of files. Pages of its program, which the
// kernel or the process itself may drop at any time, are not among them: counterd drops 14 MB of them two seconds after its start.
func ReadPrivate(pid int) (int64, error) {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	return parseStatm(statm)
}

// parseStatm reads /proc/PID/statm: "size resident shared ..." of proc(5), in pages. Shared are those of files and of shared memory.
func parseStatm(statm []byte) (int64, error) {
	var size, resident, shared int64
	if _, err := fmt.Sscan(string(statm), &size, &resident, &shared); err != nil || shared > resident {
		return 0, fmt.Errorf("statm of a process: got %.80q, want its size, resident and shared pages", statm)
	}
	return (resident - shared) * int64(os.Getpagesize()), nil
}

// Info is a server's reply to INFO.
type Info map[string]string

// ReadInfo asks for the whole of INFO. The Info of a server that has no such command, as Pogocache, is empty.
func ReadInfo(c *wire.Conn) (Info, error) {
	v, err := c.Do("INFO")
	if refused, ok := errors.AsType[*wire.ServerError](err); ok && strings.HasPrefix(refused.Text, "ERR unknown command") {
		return Info{}, nil
	}
	if err != nil {
		return nil, err
	}
	return ParseInfo(v.Str), nil
}

// ParseInfo reads the reply to INFO.
func ParseInfo(text string) Info {
	info := Info{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			info[key] = value
		}
	}
	return info
}

// Int returns a number of INFO.
func (i Info) Int(key string) (int64, error) {
	v, err := strconv.ParseInt(i[key], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("INFO: %s is %q, not a number", key, i[key])
	}
	return v, nil
}

// Usage reads the Usage from INFO, for a server on another machine.
func (i Info) Usage() (Usage, error) {
	user, err1 := strconv.ParseFloat(i["used_cpu_user"], 64)
	system, err2 := strconv.ParseFloat(i["used_cpu_sys"], 64)
	rss, err3 := i.Int("used_memory_rss")
	if err := errors.Join(err1, err2, err3); err != nil {
		return Usage{}, fmt.Errorf("INFO does not tell what the server uses: %w", err)
	}
	return Usage{User: time.Duration(user * 1e9), System: time.Duration(system * 1e9), RSS: rss}, nil
}

// Version names the program and its version.
func (i Info) Version() string {
	for _, name := range []string{"counterd", "valkey", "dragonfly", "keydb", "redis"} {
		if v := i[name+"_version"]; v == "255.255.255" { // the name that unreleased versions of Redis and Valkey have
			return name + " unstable"
		} else if v != "" {
			return name + " " + strings.TrimPrefix(v, "df-")
		}
	}
	return "unknown"
}

// Meter reads what a server uses: from /proc where the server runs on this machine, else from INFO.
type Meter struct {
	pid  int // 0: not on this machine
	conn *wire.Conn
}

// NewMeter returns a Meter of the server behind conn, which it uses from then on. pid is the server's process; 0: the
// process that INFO names, if it is visible from here.
func NewMeter(c *wire.Conn, pid int) (*Meter, error) {
	m := &Meter{pid: pid, conn: c}
	if pid != 0 {
		_, err := Read(pid)
		return m, err
	}
	info, err := ReadInfo(c)
	if err != nil {
		return nil, err
	}
	if c.SameHost() {
		m.pid = info.process()
	}
	_, err = m.Usage()
	return m, err
}

// PID returns the server's process, 0 when it is not on this machine.
func (m *Meter) PID() int { return m.pid }

// process returns the process that INFO names if it is to be seen from here. In a container it has another number
// outside, which may be that of a stranger: so its resident size must be about what INFO says.
func (i Info) process() int {
	pid, err1 := i.Int("process_id")
	said, err2 := i.Usage()
	if err1 != nil || err2 != nil {
		return 0
	}
	seen, err := Read(int(pid))
	if err != nil || seen.RSS > 2*said.RSS || said.RSS > 2*seen.RSS {
		return 0
	}
	return int(pid)
}

// Usage reads the meter.
func (m *Meter) Usage() (Usage, error) {
	if m.pid != 0 {
		return Read(m.pid)
	}
	info, err := ReadInfo(m.conn)
	if err != nil {
		return Usage{}, err
	}
	return info.Usage()
}
