package console

import (
	"net/http"
	"strconv"
	"strings"
)

// Access says which data a viewer may see besides facts.
type Access struct {
	Slowlog bool // arguments of slow commands
	Clients bool // addresses and names of clients
	Posts   bool // keys of posts that are used most
}

// Paths are those that Handler answers, as patterns of http.ServeMux.
var Paths = []string{"/{$}", "/status.json", "/history.json", "/map.json"}

// Handler serves the console at /, and its data. Every viewer may see facts; may says what else a viewer may see.
func (m *Monitor) Handler(may func(r *http.Request) Access) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, document := w.Header(), document()
		h.Set("Content-Security-Policy", document.policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD are supported", http.StatusMethodNotAllowed)
			return
		}
		switch r.URL.Path {
		case "/":
			h.Set("Cache-Control", "no-cache")
			h.Set("ETag", document.tag)
			if r.Header.Get("If-None-Match") == document.tag {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			send(w, r, "text/html; charset=utf-8", &document.body)
		case "/status.json", "/history.json":
			a := m.current(r.Context())
			switch {
			case a == nil:
				http.Error(w, "the server has not been observed yet", http.StatusServiceUnavailable)
			case r.URL.Path == "/history.json":
				send(w, r, "application/json", a.history())
			default:
				send(w, r, "application/json", a.body(may(r)))
			}
		case "/map.json":
			if b := m.currentMap(r.Context()); b != nil {
				send(w, r, "application/json", b)
			} else {
				w.WriteHeader(http.StatusNoContent)
			}
		default:
			http.NotFound(w, r)
		}
	})
}

// send writes a body, compressed if the client accepts that.
func send(w http.ResponseWriter, r *http.Request, kind string, b *body) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Vary", "Accept-Encoding")
	data := b.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		data = b.gzip
	}
	h.Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data) // an error means that the client has disconnected
}
