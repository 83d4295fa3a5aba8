package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/internal/bytesize"
)

// kind describes how the value of a setting becomes a flag and a text, how a text becomes the value, and which values
// are valid.
type kind struct {
	flag   func(fs *pflag.FlagSet, c *Config, name, usage string) // the flag's default is the value in c
	get    func(*Config) string                                   // the reply of CONFIG GET; nil: CONFIG does not know the setting
	set    func(*Config, string) error                            // its errors have Redis's words
	check  func(*Config) error                                    // the error has the value got and the values wanted, without the name; nil: every value is valid by itself
	values string                                                 // the valid values, for documentation
}

var (
	errNoInteger = errors.New("argument couldn't be parsed into an integer")
	errNotYesNo  = errors.New("argument must be 'yes' or 'no'")
)

// integer is a number in least..most.
func integer(field func(*Config) *int, least, most int) kind {
	return kind{
		check:  func(c *Config) error { return inRange(int64(*field(c)), int64(least), int64(most)) },
		values: fmt.Sprintf("%d to %d", least, most),
		flag: func(fs *pflag.FlagSet, c *Config, name, usage string) {
			fs.Var(wholeFlag[int]{field(c), int64(least), int64(most)}, name, usage)
		},
		get: func(c *Config) string { return strconv.Itoa(*field(c)) },
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

// integer64 is integer for 64 bits.
func integer64(field func(*Config) *int64, least, most int64) kind {
	return kind{
		check:  func(c *Config) error { return inRange(*field(c), least, most) },
		values: fmt.Sprintf("%d to %d", least, most),
		flag: func(fs *pflag.FlagSet, c *Config, name, usage string) {
			fs.Var(wholeFlag[int64]{field(c), least, most}, name, usage)
		},
		get: func(c *Config) string { return strconv.FormatInt(*field(c), 10) },
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

func inRange(got, least, most int64) error {
	if got < least || got > most {
		return fmt.Errorf("got %d, want %d..%d", got, least, most)
	}
	return nil
}

// choice is one of a few words.
func choice(field func(*Config) *string, words ...string) kind {
	k := text(field)
	last := len(words) - 1
	k.values = strings.Join(words[:last], ", ") + " or " + words[last]
	k.check = func(c *Config) error {
		if !slices.Contains(words, *field(c)) {
			return fmt.Errorf("got %q, want %s", *field(c), k.values)
		}
		return nil
	}
	return k
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

// bytesIn is bytes in least..most.
func bytesIn(field func(*Config) *uint64, least, most uint64) kind {
	k := bytes(field)
	k.check = func(c *Config) error {
		if n := *field(c); n < least || n > most {
			return fmt.Errorf("got %d, want %d..%d", n, least, most)
		}
		return nil
	}
	k.values = bytesize.Format(least) + " to " + bytesize.Format(most)
	return k
}

// valued is k with its valid values in words, where something else checks them.
func valued(values string, k kind) kind {
	k.values = values
	return k
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
