package wire

import (
	"context"
	"errors"
	"strings"
)

// Ping connects to a server and asks whether it serves clients. A server that asks for a password first serves them; a
// server that loads its data does not. Options.Answer should bound the wait.
func Ping(ctx context.Context, addr string, opts Options) error {
	conn, err := Dial(ctx, addr, opts)
	if err != nil {
		return err
	}
	defer conn.Close()
	answer, err := conn.Do("PING")
	if err == nil && answer.IsErr {
		err = &ServerError{Text: answer.Str}
	}
	var refused *ServerError
	if errors.As(err, &refused) && strings.HasPrefix(refused.Text, "NOAUTH ") {
		return nil
	}
	return err
}
