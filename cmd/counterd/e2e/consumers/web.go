package consumers

import (
	"bufio"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
)

// service is a web service that breaks connections. Where it compares positions, as the documentation says, it takes each change once.
// Safe for concurrent use.
type service struct {
	compares bool

	mu    sync.Mutex
	rng   *rand.Rand
	at    string
	lines []string
	given int // of lines
	dead  int // so many requests more get no answer
}

// NewWeb is a web service that compares positions, without TLS.
func NewWeb(t testing.TB, rng *rand.Rand) *Sink {
	s := &service{compares: true, rng: rand.New(rand.NewPCG(rng.Uint64(), 0))}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s.sink(t, server.URL)
}

// NewTakingWeb is a web service with TLS that takes every request, so that changes may come again.
func NewTakingWeb(t testing.TB, rng *rand.Rand) *Sink {
	s := &service{rng: rand.New(rand.NewPCG(rng.Uint64(), 0))}
	server := httptest.NewTLSServer(s)
	t.Cleanup(server.Close)
	return s.sink(t, server.URL, "--sink-insecure")
}

func (s *service) sink(t testing.TB, url string, args ...string) *Sink {
	return &Sink{To: append([]string{"--to", url, "--state", filepath.Join(t.TempDir(), "state")}, args...), Repeats: !s.compares,
		Break: func() {
			s.mu.Lock()
			s.dead = 1 + s.rng.IntN(3)
			s.mu.Unlock()
		},
		Read: func() ([]string, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			lines := s.lines[s.given:]
			s.given = len(s.lines)
			return lines, nil
		}}
}

// ServeHTTP takes lines. A dead service takes them and does not say so, or does not take them.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	late := s.rng.IntN(2) == 0
	if s.dead > 0 {
		if s.dead--; !late {
			panic(http.ErrAbortHandler)
		}
		defer func() { panic(http.ErrAbortHandler) }()
	}
	if after := r.Header.Get("Counterd-After"); s.compares && s.at != "" && after != s.at {
		w.Header().Set("Counterd-Position", s.at)
		w.WriteHeader(http.StatusConflict)
		return
	}
	var lines []string
	body := bufio.NewScanner(r.Body)
	body.Buffer(nil, 64<<20)
	for body.Scan() {
		lines = append(lines, body.Text())
	}
	if body.Err() != nil {
		panic(http.ErrAbortHandler)
	}
	s.lines, s.at = append(s.lines, lines...), r.Header.Get("Counterd-Position")
}
