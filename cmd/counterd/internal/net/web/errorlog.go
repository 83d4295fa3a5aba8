package web

import (
	"context"
	"log/slog"
	"runtime/debug"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/observe/stats"
)

// errorLog takes the errors that net/http reports. Failed TLS handshakes are warnings, since an operator has to see that a
// certificate is refused, but one in a stretch of time at most: anybody who can reach the port could fill the log with
// them. Nearly all others come from clients, for example from a malformed request, and are for debugging.
type errorLog struct {
	slog.Handler
	handshakes *stats.Every
}

func (l errorLog) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "http: Accept error") {
		r.Level = slog.LevelWarn
	}
	if text, ok := strings.CutPrefix(r.Message, "http: TLS handshake error from "); ok {
		others, pass := l.handshakes.Pass(r.Time)
		if !pass {
			return nil
		}
		addr, reason, _ := strings.Cut(text, ": ")
		r = slog.NewRecord(r.Time, slog.LevelWarn, "TLS handshake failed", r.PC)
		r.Add("address", addr, "error", strings.TrimSpace(reason), "others", others)
	}
	if !l.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return l.Handler.Handle(ctx, r)
}

// Enabled lets everything come to Handle, which knows what it is.
func (l errorLog) Enabled(context.Context, slog.Level) bool { return true }

// stack is the stack of a panic, a line a call and no more than logs bear.
func stack() string {
	const most = 4 << 10
	s := string(debug.Stack())
	if len(s) > most {
		s = s[:most]
	}
	return s
}
