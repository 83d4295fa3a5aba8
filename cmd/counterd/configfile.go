package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/counterd/internal/server"
)

// readConfig sets from the file of --config what the command line does not. It returns the settings that are Redis's alone and were
// passed over. Everything that is wrong with the file is in one error, a line each.
func readConfig(fs *pflag.FlagSet, c *server.Config) (passed []string, err error) {
	if c.ConfigFile == "" {
		return nil, nil
	}
	path, err := filepath.Abs(c.ConfigFile)
	if err != nil {
		return nil, err
	}
	c.ConfigFile = path
	var wrong []error
	settings, err := server.ReadConfigFile(path)
	if err != nil {
		wrong = append(wrong, err)
	}
	for _, s := range settings {
		over, err := setting(fs, s)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("line %d: %w", s.Line, err))
		} else if over && !slices.Contains(passed, s.Name) {
			passed = append(passed, s.Name)
		}
	}
	if wrong != nil {
		return nil, fmt.Errorf("--config %s: %w", path, errors.Join(wrong...))
	}
	return passed, nil
}

// setting sets one line of the file, or tells that it is passed over.
func setting(fs *pflag.FlagSet, s server.Setting) (over bool, err error) {
	name := strings.NewReplacer("slaves", "replicas", "slave", "replica").Replace(s.Name)
	flag := fs.Lookup(name)
	if flag == nil || name == "config" || name == "version" {
		over, values := passedOver(name, s.Value)
		switch {
		case over:
			return true, nil
		case values != nil:
			return false, fmt.Errorf("%s: got %q, and here it is always %q", s.Name, s.Value, values[0])
		}
		return false, fmt.Errorf("unknown setting %q", s.Name)
	}
	if flag.Changed {
		return false, nil
	}
	value := s.Value
	if name == "bind" {
		value = strings.Join(strings.Fields(value), ",")
	}
	if flag.Value.Type() == "bool" {
		value = strings.NewReplacer("yes", "true", "no", "false").Replace(value)
	}
	if err := flag.Value.Set(value); err != nil {
		return false, fmt.Errorf("%s: %w", s.Name, err)
	}
	return false, nil
}
