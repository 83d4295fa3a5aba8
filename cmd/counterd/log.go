package main

import (
	"io"
	"log/slog"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
)

// newLog makes the log in the form of --log-format: a line for people, or an object of JSON a line. Both have time,
// level and msg, and then the same keys: those of TestLogKeys, which says what each means.
func newLog(w io.Writer, format string, level slog.Leveler) *slog.Logger {
	if format == config.LogJSON {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: inSeconds}))
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

// inSeconds gives programs durations as seconds. slog's own nanoseconds say nothing of their unit, and text has one.
func inSeconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.Float64Value(float64(a.Value.Duration()) / float64(time.Second))
	}
	return a
}

// saidError is an error that the log has already told.
type saidError struct{ error }
