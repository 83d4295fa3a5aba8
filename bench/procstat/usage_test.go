package procstat

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/wire"
)

func TestProcess(t *testing.T) {
	stat := "42 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 1234 567 14 15 16 17 18 19 20 21 1000 23"
	usage, err := parseStat([]byte(stat))
	if err != nil || usage.User != 12340*time.Millisecond || usage.System != 5670*time.Millisecond || usage.RSS != int64(1000*os.Getpagesize()) {
		t.Errorf("%+v, %v", usage, err)
	}
	for _, bad := range []string{"", "42 (a) S 1 2", strings.Replace(stat, "1234", "x", 1)} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
	self, err := Read(os.Getpid())
	if err != nil || self.RSS < 1<<20 {
		t.Errorf("this process: %+v, %v", self, err)
	}
}

func TestPrivate(t *testing.T) {
	if got, err := parseStatm([]byte("9000 1000 400 700 0 4000 0\n")); err != nil || got != int64(600*os.Getpagesize()) {
		t.Errorf("got %d, %v, want 600 pages", got, err)
	}
	for _, bad := range []string{"", "9000 1000", "9000 400 1000 7", "a b c"} {
		if _, err := parseStatm([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
	self, err := Read(os.Getpid())
	if got, err2 := ReadPrivate(os.Getpid()); errors.Join(err, err2) != nil || got < 1<<18 || got > 2*self.RSS {
		t.Errorf("this process: %d of %+v, %v, %v", got, self, err, err2)
	}
}

func TestInfoUsage(t *testing.T) {
	info := Info{"used_cpu_user": "1.25", "used_cpu_sys": "0.5", "used_memory_rss": "4096", "redis_version": "7.0.15"}
	usage, err := info.Usage()
	if err != nil || usage.CPU() != 1750*time.Millisecond || usage.RSS != 4096 {
		t.Errorf("%+v, %v", usage, err)
	}
	if got := info.Version(); got != "redis 7.0.15" {
		t.Errorf("version %q", got)
	}
	if _, err := (Info{}).Usage(); err == nil {
		t.Error("an empty INFO: no error")
	}
}

// TestServerWithoutInfo: a server that refuses INFO is measured by its process, and cannot be without one.
func TestServerWithoutInfo(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for in := make([]byte, 64); ; {
					if _, err := c.Read(in); err != nil {
						return
					}
					if _, err := c.Write([]byte("-ERR unknown command 'INFO'\r\n")); err != nil {
						return
					}
				}
			}()
		}
	}()
	conn, err := wire.Dial(t.Context(), listener.Addr().String(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if info, err := ReadInfo(conn); err != nil || len(info) != 0 || info.Version() != "unknown" {
		t.Errorf("INFO: got %v, %v, want nothing", info, err)
	}
	if _, err := NewMeter(conn, 0); err == nil {
		t.Error("a meter without a process: got no error")
	}
	meter, err := NewMeter(conn, os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if usage, err := meter.Usage(); err != nil || usage.RSS < 1<<20 {
		t.Errorf("this process: %+v, %v", usage, err)
	}
}
