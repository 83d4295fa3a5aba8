package config

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/internal/bytesize"
)

// kind is how the value of a setting becomes a flag and a text, and how a text becomes the value.
type kind struct {
	flag func(fs *pflag.FlagSet, c *Config, name, usage string) // its default is what c has
	get  func(*Config) string                                   // what CONFIG GET answers; nil: CONFIG does not know the setting
	set  func(*Config, string) error                            // in the words of CONFIG SET
}

var (
	errNoInteger = errors.New("argument couldn't be parsed into an integer")
	errNotYesNo  = errors.New("argument must be 'yes' or 'no'")
)

func integer(field func(*Config) *int) kind {
	return kind{
		flag: func(fs *pflag.FlagSet, c *Config, name, usage string) { fs.IntVar(field(c), name, *field(c), usage) },
		get:  func(c *Config) string { return strconv.Itoa(*field(c)) },
		set: func(c *Config, v string) error {
			n, err := strconv.Atoi(v)
			if err != nil {
				return errNoInteger
			}
			*field(c) = n
			return nil
		},
	}
}

func integer64(field func(*Config) *int64) kind {
	return kind{
		flag: func(fs *pflag.FlagSet, c *Config, name, usage string) { fs.Int64Var(field(c), name, *field(c), usage) },
		get:  func(c *Config) string { return strconv.FormatInt(*field(c), 10) },
		set: func(c *Config, v string) error {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				return errNoInteger
			}
			*field(c) = n
			return nil
		},
	}
}

func text(field func(*Config) *string) kind {
	return kind{
		flag: func(fs *pflag.FlagSet, c *Config, name, usage string) { fs.StringVar(field(c), name, *field(c), usage) },
		get:  func(c *Config) string { return *field(c) },
		set: func(c *Config, v string) error {
			*field(c) = v
			return nil
		},
	}
}

// list is of words: commas part them in a flag, spaces in a file.
func list(field func(*Config) *[]string) kind {
	return kind{
		flag: func(fs *pflag.FlagSet, c *Config, name, usage string) {
			fs.StringSliceVar(field(c), name, *field(c), usage)
		},
		get: func(c *Config) string { return strings.Join(*field(c), " ") },
	}
}

// lines are given several times, one each. CONFIG does not know them.
func lines(field func(*Config) *[]string) kind {
	return kind{flag: func(fs *pflag.FlagSet, c *Config, name, usage string) {
		fs.StringArrayVar(field(c), name, *field(c), usage)
	}}
}

func yesNo(field func(*Config) *bool) kind {
	return kind{
		flag: func(fs *pflag.FlagSet, c *Config, name, usage string) { fs.Var((*yesNoFlag)(field(c)), name, usage) },
		get:  func(c *Config) string { return (*yesNoFlag)(field(c)).String() },
		set: func(c *Config, v string) error {
			if v != "yes" && v != "no" {
				return errNotYesNo
			}
			*field(c) = v == "yes"
			return nil
		},
	}
}

// bytes are a number with Redis's suffixes.
func bytes(field func(*Config) *uint64) kind {
	return kind{
		flag: func(fs *pflag.FlagSet, c *Config, name, usage string) { fs.Var((*bytesFlag)(field(c)), name, usage) },
		get:  func(c *Config) string { return strconv.FormatUint(*field(c), 10) },
		set: func(c *Config, v string) (err error) {
			*field(c), err = bytesize.Parse(v)
			return err
		},
	}
}

// permissions are those of a file. CONFIG does not know them.
func permissions(field func(*Config) *uint32) kind {
	return kind{flag: func(fs *pflag.FlagSet, c *Config, name, usage string) { fs.Var((*octalFlag)(field(c)), name, usage) }}
}

// syntax is of a value with a syntax of its own, the same for a flag and for CONFIG.
func syntax(field func(*Config) pflag.Value) kind {
	return kind{
		flag: func(fs *pflag.FlagSet, c *Config, name, usage string) { fs.Var(field(c), name, usage) },
		get:  func(c *Config) string { return field(c).String() },
		set:  func(c *Config, v string) error { return field(c).Set(v) },
	}
}

// constant is of a setting that has one possible value here.
func constant(v string) kind { return kind{get: func(*Config) string { return v }} }
