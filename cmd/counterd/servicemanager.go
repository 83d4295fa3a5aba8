package main

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// serviceManager is told how far the process is, by the protocol of sd_notify(3): READY when clients are served,
// STATUS while data is loaded, STOPPING. Where there is none ($NOTIFY_SOCKET is not set) nothing is said.
type serviceManager struct {
	log *slog.Logger

	mu   sync.Mutex
	last time.Time // that loading was told
	sick bool      // it cannot be reached, which was logged
}

// loadingEvery is the time between two words about loading, loadingMore what the manager is asked for with each: a start
// that goes on is never ended because it takes long.
const (
	loadingEvery = time.Second
	loadingMore  = 30 * time.Second
)

func newServiceManager(log *slog.Logger) *serviceManager { return &serviceManager{log: log} }

// loading says that done of total bytes are read. It may be called from several goroutines, and as often as one likes.
func (m *serviceManager) loading(what string, done, total uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.last) < loadingEvery {
		return
	}
	m.last = time.Now()
	status := "loading: " + what
	if total > 0 {
		status += fmt.Sprintf(", %d %%", min(done, total)*100/total)
	}
	m.say(fmt.Sprintf("STATUS=%s\nEXTEND_TIMEOUT_USEC=%d", status, loadingMore.Microseconds()))
}

func (m *serviceManager) ready() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.say(daemon.SdNotifyReady + "\nSTATUS=serving")
}

func (m *serviceManager) stopping() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.say(daemon.SdNotifyStopping + "\nSTATUS=closing connections and the log")
}

// say REQUIRES mu.
func (m *serviceManager) say(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil && !m.sick {
		m.sick = true
		m.log.Warn("cannot report startup progress to the service manager", "error", err)
	}
}
