package simulation

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"
)

// Story is what happened in a run, a line each, with the time since its beginning.
type Story struct {
	began time.Time
	live  io.Writer // gets each line as it comes; nil: nobody

	mu    sync.Mutex
	lines []string
	met   map[string]int // messages of processes, by text
}

// Say adds a line about a part of the run.
func (s *Story) Say(who, format string, args ...any) {
	line := fmt.Sprintf("%9.3f %-4s %s", time.Since(s.began).Seconds(), who, fmt.Sprintf(format, args...))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line)
	if s.live != nil {
		fmt.Fprintln(s.live, line)
	}
}

// meet counts a message.
func (s *Story) meet(message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.met == nil {
		s.met = make(map[string]int)
	}
	s.met[message]++
}

// Met is how often processes logged each message: which mechanisms a run has met.
func (s *Story) Met() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.met)
}

// String is the whole story.
func (s *Story) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

// storyHandler puts what a process logs into the story.
type storyHandler struct {
	story *Story
	who   string
	attrs []slog.Attr
}

// Enabled is of slog.Handler.
func (h *storyHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

// Handle is of slog.Handler.
func (h *storyHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	fmt.Fprintf(&b, "    %s: %s", r.Level, r.Message)
	for _, a := range h.attrs {
		fmt.Fprintf(&b, " %s", a)
	}
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %.200s", a.String())
		return true
	})
	h.story.meet(r.Message)
	h.story.Say(h.who, "%s", b.String())
	return nil
}

// WithAttrs is of slog.Handler.
func (h *storyHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &storyHandler{h.story, h.who, append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

// WithGroup is of slog.Handler.
func (h *storyHandler) WithGroup(string) slog.Handler { return h }
