package resp

import "github.com/counterd/counterd/internal/argument"

// Arguments of commands, as handlers read and show them: those of package argument, under a name that handlers have at hand.

// Number is argument.Number.
func Number(b []byte) (int64, bool) { return argument.Number(b) }

// EqualFold is argument.EqualFold.
func EqualFold(b []byte, upper string) bool { return argument.EqualFold(b, upper) }

// Printable is argument.Printable.
func Printable(b []byte, n int) string { return argument.Printable(b, n) }
