package web

import (
	"context"
	"log/slog"
	"runtime/debug"
	"strings"
)

// errorLog is where net/http says what went wrong. Nearly all of it is what a client did, a handshake that was cut or
// a request that is none, and is for debugging: whoever reaches the port could fill the log with it.
type errorLog struct{ slog.Handler }

func (l errorLog) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "http: Accept error") {
		r.Level = slog.LevelWarn
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
