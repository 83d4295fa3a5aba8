package sinks

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/internal/connect"
)

// service is a web service that takes each change once.
type service struct {
	at, text string
	answers  []int // of the next requests; 0: as it should
	seen     []string
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	user, pass, _ := r.BasicAuth()
	s.seen = append(s.seen, fmt.Sprintf("%s %s %s:%s", r.Method, r.Header.Get("Content-Type"), user, pass))
	code := 0
	if len(s.answers) > 0 {
		code, s.answers = s.answers[0], s.answers[1:]
	}
	switch {
	case code != 0 && code != 599:
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "because\n")
	case r.Header.Get(AfterHeader) != s.at && s.at != "":
		w.Header().Set(PositionHeader, s.at)
		w.WriteHeader(http.StatusConflict)
	default:
		s.at = r.Header.Get(PositionHeader)
		if s.text += string(body); code == 599 { // it has taken them, and the answer is lost
			w.WriteHeader(http.StatusBadGateway)
		}
	}
}

// TestWeb posts to a service that refuses, fails, and is at another position: it gets each change once.
func TestWeb(t *testing.T) {
	s := &service{}
	server := httptest.NewServer(s)
	defer server.Close()
	state := filepath.Join(t.TempDir(), "state")
	p, err := Parse(strings.Replace(server.URL, "http://", "http://me:secret@", 1)+"/changes", Options{State: state, Reach: connect.AddSinkFlags(pflag.NewFlagSet("", pflag.ContinueOnError))})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(p.Name, "secret") {
		t.Errorf("the name is %s", p.Name)
	}
	open := func(at string) Sink {
		t.Helper()
		sink, err := p.Open(t.Context())
		if err != nil || sink.Position() != at {
			t.Fatalf("%v, at %v, want %s", err, sink, at)
		}
		return sink
	}
	sink := open("")
	write(t, sink, batch(0, 3))
	for _, code := range []int{500, 503, 429, 408} {
		s.answers = []int{code}
		if err := sink.Write(t.Context(), batch(3, 5)); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "because") {
			t.Errorf("%d: %v", code, err)
		}
	}
	for _, code := range []int{400, 401, 404, 413, 302} {
		s.answers = []int{code}
		if err := sink.Write(t.Context(), batch(3, 5)); err == nil || errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), fmt.Sprint(code)) {
			t.Errorf("%d: %v", code, err)
		}
	}
	s.answers = []int{599}
	if err := sink.Write(t.Context(), batch(3, 5)); !errors.Is(err, ErrBroken) {
		t.Errorf("an answer that is lost: %v", err)
	}
	sink = open(place(3)) // which it posts again
	if err := sink.Write(t.Context(), batch(3, 6)); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), place(5)) {
		t.Errorf("a repeat: %v", err)
	}
	sink = open(place(5))
	write(t, sink, batch(5, 6))
	if s.text != string(batch(0, 6).Text) {
		t.Errorf("it has %s", s.text)
	}
	if s.seen[0] != "POST application/x-ndjson me:secret" {
		t.Errorf("it got %s", s.seen[0])
	}
	s.at, s.answers = "nothing", nil
	if err := sink.Write(t.Context(), batch(6, 7)); err == nil || errors.Is(err, ErrBroken) {
		t.Errorf("a conflict without a position: %v", err)
	}
	server.Close()
	if err := sink.Write(t.Context(), batch(6, 7)); !errors.Is(err, ErrBroken) {
		t.Errorf("nobody is there: %v", err)
	}
	if err := os.WriteFile(state, []byte("\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Open(t.Context()); err == nil {
		t.Error("a state without a position was taken")
	}
}
