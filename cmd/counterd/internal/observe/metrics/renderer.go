package metrics

import (
	"bytes"
	"log/slog"
	"net/http"
	"time"
)

const (
	// renderShare is the part of the time that may be spent on pages, and longestPause the longest pause that it asks for.
	renderShare  = 20
	longestPause = 250 * time.Millisecond
	// keptPages is how many pages are kept for requests that want different ones: by format, compression or query.
	keptPages = 8
)

// renderer makes pages for scrapes. All requests for the same page that arrive before it is begun share it, so a page
// never shows values from before its request. Between two pages is a pause of renderShare times as long as the first
// one took: however many scrape, and however often, commands keep their processors.
//
// INVARIANT: the goroutine that has put a value into turn owns all other fields.
type renderer struct {
	source  Source
	state   *held // of the page that is made now
	handler http.Handler

	turn  chan struct{}
	next  time.Time // when the next page may be begun
	pages map[variant]*page
}

// variant is the form of the page that a request wants.
type variant struct{ accept, encoding, query string }

// page is an answer that is made: 200 KB at most, of 256 counters. It does not change when it is whole.
type page struct {
	began  time.Time
	header http.Header
	status int
	body   bytes.Buffer
}

func newRenderer(source Source, log *slog.Logger) *renderer {
	h := new(held)
	return &renderer{source: source, state: h, handler: newHandler(h, log), turn: make(chan struct{}, 1), pages: make(map[variant]*page)}
}

// page returns a page whose values are not older than the call; nil: the client went away first.
func (rd *renderer) page(r *http.Request, waiting func(r *http.Request) (end func())) *page {
	arrived := time.Now()
	defer waiting(r)()
	select {
	case rd.turn <- struct{}{}:
	case <-r.Context().Done():
		return nil
	}
	defer func() { <-rd.turn }()
	wanted := variant{r.Header.Get("Accept"), r.Header.Get("Accept-Encoding"), r.URL.RawQuery}
	if p := rd.pages[wanted]; p != nil && p.began.After(arrived) {
		return p
	}
	timer := time.NewTimer(time.Until(rd.next))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
		return nil
	}
	p := rd.render(r)
	if len(rd.pages) >= keptPages {
		clear(rd.pages)
	}
	rd.pages[wanted] = p
	return p
}

// render makes a page. If that panics the pause comes all the same.
func (rd *renderer) render(r *http.Request) *page {
	p := &page{began: time.Now(), header: make(http.Header), status: http.StatusOK}
	defer func() {
		end := time.Now()
		rd.next = end.Add(min(renderShare*end.Sub(p.began), longestPause))
	}()
	whole := r.WithContext(r.Context())
	whole.Method = http.MethodGet      // other requests that want its body share it
	rd.state.state = rd.source.State() // here, where a panic is the request's, and not the library's
	rd.handler.ServeHTTP(p, whole)
	return p
}

func (p *page) Header() http.Header               { return p.header }
func (p *page) WriteHeader(status int)            { p.status = status }
func (p *page) Write(b []byte) (n int, err error) { return p.body.Write(b) }
