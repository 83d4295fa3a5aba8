package web

import "net/http"

// writer knows whether a reply has begun. http.ResponseController sees through it.
type writer struct {
	http.ResponseWriter
	begun bool
}

func (w *writer) WriteHeader(status int) {
	w.begun = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(p []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
