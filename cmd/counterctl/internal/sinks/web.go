package sinks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Headers of a request. A service that keeps PositionHeader in the transaction in which it uses the changes, and compares its own with
// AfterHeader, takes each change once: it answers 409 and PositionHeader with its own position where the two differ.
const (
	PositionHeader = "Counterd-Position" // behind the last change of the body
	AfterHeader    = "Counterd-After"    // in front of the first change
)

// web is a web service that takes lines of JSON by POST. Any status from 200 to 299 says that it has all of them.
type web struct {
	client   *http.Client
	url      string
	user     string
	password string
}

// webAnswer is how long the service may take for an answer.
const webAnswer = time.Minute

// newWeb makes the sink. It sends nothing yet. A redirection is an error: it would turn the POST into a GET.
func newWeb(transport *http.Transport, url, user, password string) *web {
	return &web{url: url, user: user, password: password, client: &http.Client{Transport: transport, Timeout: webAnswer,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// Position is empty: the service does not say it before it is sent something.
func (w *web) Position() string { return "" }

// elsewhereError says that the service is at another position. It passes: the feed goes on from there.
type elsewhereError struct{ position string }

func (e *elsewhereError) Error() string {
	return "the service asks for the changes behind " + e.position
}

// statusError is an answer that is no success.
type statusError struct {
	status string
	text   string // the beginning of the body
}

func (e *statusError) Error() string {
	if e.text == "" {
		return "it answered " + e.status
	}
	return fmt.Sprintf("it answered %s: %s", e.status, e.text)
}

// Write sends a batch as one request.
func (w *web) Write(ctx context.Context, b *Batch) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(b.Text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set(AfterHeader, b.After)
	req.Header.Set(PositionHeader, b.Position())
	if w.password != "" {
		req.SetBasicAuth(w.user, w.password)
	}
	answer, err := w.client.Do(req)
	if err != nil {
		return broken(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 4096)) // for people; and so that the connection is used again
	switch code := answer.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code == http.StatusConflict:
		at := answer.Header.Get(PositionHeader)
		if _, err := Offset(at); err != nil {
			return fmt.Errorf("it answered %s, with %s: %w", answer.Status, PositionHeader, err)
		}
		return &BrokenError{&elsewhereError{at}}
	case code >= 500, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout, code == http.StatusTooEarly:
		return &BrokenError{&statusError{answer.Status, clip(text)}}
	}
	return &statusError{answer.Status, clip(text)}
}

// clip is as much of a text as an error repeats.
func clip(text []byte) string {
	text = bytes.TrimSpace(text)
	return string(text[:min(len(text), 200)])
}

// Close closes the connections that wait for another request.
func (w *web) Close() error {
	w.client.CloseIdleConnections()
	return nil
}

// errNoState: a web service does not tell where the feed was.
var errNoState = errors.New("a web service does not keep the position: want --state FILE, which keeps it")
