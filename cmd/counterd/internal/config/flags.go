package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/internal/bytesize"
)

// Flags binds the command line to c, which has the defaults. version is whether to print the version instead of starting.
func Flags(c *Config) (fs *pflag.FlagSet, version *bool) {
	fs = pflag.NewFlagSet("counterd", pflag.ContinueOnError)
	fs.SortFlags = false
	for i := range settings {
		if s := &settings[i]; s.flag != nil {
			s.flag(fs, c, s.name, s.usage)
		}
	}
	fs.StringVar(&c.ConfigFile, "config", c.ConfigFile, "`FILE` of settings in the syntax of redis.conf. The command line takes precedence. CONFIG REWRITE writes the file.")
	return fs, fs.Bool("version", false, "Print the version and exit.")
}

// ParseFlags parses the command line. Its errors name the valid flags or values.
func ParseFlags(fs *pflag.FlagSet, args []string) error {
	err := fs.Parse(args)
	var unknown *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return fmt.Errorf("unknown flag -%s: the flags begin with --, as in --port 6379 (--help lists them)", unknown.GetSpecifiedShortnames())
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		return fmt.Errorf("unknown flag --%s%s (--help lists the flags)", name, suggestion("--", name, fs))
	case errors.As(err, &bare):
		return fmt.Errorf("the flag --%s needs a value (--help describes it)", bare.GetSpecifiedName())
	case errors.As(err, &invalid):
		return fmt.Errorf("--%s: %w", invalid.GetFlag().Name, invalid.Unwrap())
	}
	return err
}

// wholeFlag is a whole number.
type wholeFlag[N int | int64] struct {
	to          *N
	least, most int64 // for the error; kind.check refuses numbers outside
}

func (w wholeFlag[N]) String() string { return strconv.FormatInt(int64(*w.to), 10) }
func (w wholeFlag[N]) Type() string   { return "int" }

func (w wholeFlag[N]) Set(s string) error {
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		return fmt.Errorf("got %q, want a whole number from %d to %d", s, w.least, w.most)
	}
	*w.to = N(n)
	return nil
}

// bytesFlag is a number of bytes, with Redis's suffixes.
type bytesFlag uint64

func (b *bytesFlag) String() string { return bytesize.Format(uint64(*b)) }
func (b *bytesFlag) Type() string   { return "bytes" }

func (b *bytesFlag) Set(s string) error {
	n, err := bytesize.Parse(s)
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
