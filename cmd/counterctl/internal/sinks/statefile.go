package sinks

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/counterd/counterd/internal/atomicfile"
	"github.com/counterd/counterd/internal/feedjoin"
)

// MaxPositionFile bounds a file with a position, in bytes.
const MaxPositionFile = feedjoin.MaxText + 4096

// ReadPosition reads a file that has a position as its first line. There is no such file: an error that matches os.ErrNotExist.
func ReadPosition(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxPositionFile))
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if line = strings.TrimSpace(line); line == "" {
		return "", &ForeignError{name, "its first line is no position"}
	}
	return line, nil
}

// WritePosition writes such a file. It is durable, and replaces another one as a whole.
func WritePosition(name, position string) error {
	return atomicfile.Replace(name, 0o644, func(w io.Writer) error {
		_, err := io.WriteString(w, position+"\n")
		return err
	})
}

// remembered is a sink that cannot keep its position. A file of this machine has it: it is written behind each batch, so a batch
// may come again after a crash.
type remembered struct {
	Sink
	name     string
	position string
}

// remember gives a sink a file for its position.
func remember(s Sink, name string) (Sink, error) {
	position, err := ReadPosition(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, errors.Join(err, s.Close())
	}
	return &remembered{s, name, position}, nil
}

func (r *remembered) Position() string { return r.position }

// Write writes the batch and then the position. Where the sink names another position, the feed goes on from that.
func (r *remembered) Write(ctx context.Context, b *Batch) error {
	position := b.Position()
	err := r.Sink.Write(ctx, b)
	var elsewhere *elsewhereError
	if errors.As(err, &elsewhere) {
		position = elsewhere.position
	} else if err != nil {
		return err
	}
	if failed := WritePosition(r.name, position); failed != nil {
		return failed
	}
	r.position = position
	return err
}
