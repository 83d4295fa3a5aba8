package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/server"
)

// bytesFlag is a number of bytes, with Redis's suffixes.
type bytesFlag uint64

func (b *bytesFlag) String() string { return server.FormatBytes(uint64(*b)) }
func (b *bytesFlag) Type() string   { return "bytes" }

func (b *bytesFlag) Set(s string) error {
	n, err := server.ParseBytes(s)
	*b = bytesFlag(n)
	return err
}

// yesNoFlag is redis.conf's yes or no.
type yesNoFlag bool

func (f *yesNoFlag) Type() string { return "yes|no" }

func (f *yesNoFlag) String() string {
	if *f {
		return "yes"
	}
	return "no"
}

func (f *yesNoFlag) Set(s string) error {
	switch strings.ToLower(s) {
	case "yes", "true":
		*f = true
	case "no", "false":
		*f = false
	default:
		return fmt.Errorf("got %q, want yes or no", s)
	}
	return nil
}

// octalFlag are the permissions of a file.
type octalFlag uint32

func (f *octalFlag) Type() string   { return "octal" }
func (f *octalFlag) String() string { return strconv.FormatUint(uint64(*f), 8) }

func (f *octalFlag) Set(s string) error {
	n, err := strconv.ParseUint(s, 8, 9)
	if err != nil {
		return fmt.Errorf("got %q, want permissions such as 700", s)
	}
	*f = octalFlag(n)
	return nil
}
