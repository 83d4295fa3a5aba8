package sinks

import (
	"context"
	"io"
)

// stdout is standard output. Its reader has the position of each line.
type stdout struct {
	w        io.Writer
	position string
}

func (s *stdout) Position() string { return s.position }
func (s *stdout) Close() error     { return nil }

func (s *stdout) Write(_ context.Context, b *Batch) error {
	if _, err := s.w.Write(b.Text); err != nil {
		return err
	}
	s.position = b.Position()
	return nil
}
