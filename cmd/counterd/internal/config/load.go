package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/internal/secretfile"
	"github.com/counterd/counterd/cmd/internal/spelling"
)

// Load sets from the file of --config what the command line, as fs has it, does not. It returns the settings that are
// Redis's alone and were passed over. Everything that is wrong with the file is in one error, a line each.
func Load(fs *pflag.FlagSet, c *Config) (passed []string, err error) {
	if c.ConfigFile == "" {
		return nil, nil
	}
	path, err := filepath.Abs(c.ConfigFile)
	if err != nil {
		return nil, err
	}
	c.ConfigFile = path
	var wrong []error
	data, err := os.ReadFile(path)
	if err != nil {
		wrong = append(wrong, err)
	}
	lines, err := Parse(string(data))
	if err != nil {
		wrong = append(wrong, err)
	}
	if slices.ContainsFunc(lines, func(l Line) bool { return l.Value != "" && SecretFlag(modern(l.Name)) }) {
		if err := secretfile.Check(path); err != nil {
			wrong = append(wrong, err)
		}
	}
	named := fs.Changed("appendonly") // on the command line, which is explicit
	for _, l := range lines {
		over, err := apply(fs, l)
		if err == nil && l.Name == "appendonly" && !named && !c.AppendOnly && !snapshotsOff(lines) {
			err = errSnapshots
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("line %d: %w", l.Number, err))
		} else if over && !slices.Contains(passed, l.Name) {
			passed = append(passed, l.Name)
		}
	}
	if wrong != nil {
		return nil, fmt.Errorf("--config %s: %w", path, errors.Join(wrong...))
	}
	return passed, nil
}

// apply sets what one line of the file says, or tells that it is passed over.
func apply(fs *pflag.FlagSet, l Line) (over bool, err error) {
	name := modern(l.Name)
	if name == "rename-command" {
		if l.Value, err = renamed(l.Value); err != nil {
			return false, fmt.Errorf("%s: %w", l.Name, err)
		}
		name = "disable-command"
	}
	flag := fs.Lookup(name)
	if flag == nil || name == "config" || name == "version" {
		over, values := passedOver(name, l.Value)
		switch {
		case over:
			return true, nil
		case values != nil:
			return false, fmt.Errorf("%s: got %q, but counterd supports only %q", l.Name, l.Value, values[0])
		}
		return false, fmt.Errorf("unknown setting %q%s", l.Name, suggestion("", name, fs))
	}
	if flag.Changed {
		return false, nil
	}
	value := l.Value
	if name == "bind" || name == "disable-command" {
		value = strings.Join(strings.Fields(value), ",")
	}
	if err := flag.Value.Set(value); err != nil {
		return false, fmt.Errorf("%s: %w", l.Name, err)
	}
	return false, nil
}

// suggestion asks, behind the error for an unknown name, whether another name was meant. It is empty if none is similar.
func suggestion(dashes, name string, fs *pflag.FlagSet) string {
	nearest := spelling.NearestFlag(name, fs)
	if nearest == "" || nearest == name { // config is a flag, and no setting of a file
		return ""
	}
	return ": did you mean " + dashes + nearest + "?"
}
