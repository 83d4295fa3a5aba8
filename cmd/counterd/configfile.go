package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/counterd/internal/server"
)

// readConfig sets from the file of --config what the command line does not.
func readConfig(fs *pflag.FlagSet, c *server.Config) error {
	if c.ConfigFile == "" {
		return nil
	}
	path, err := filepath.Abs(c.ConfigFile)
	if err != nil {
		return err
	}
	c.ConfigFile = path
	settings, err := server.ReadConfigFile(path)
	if err != nil {
		return fmt.Errorf("--config %s: %w", path, err)
	}
	for _, s := range settings {
		name := strings.NewReplacer("slaves", "replicas", "slave", "replica").Replace(s.Name)
		flag := fs.Lookup(name)
		switch {
		case name == "replica-read-only" && s.Value == "yes", name == "databases", name == "save" && s.Value == "", name == "maxmemory-policy" && s.Value == "noeviction":
			continue // what is so anyway
		case flag == nil || name == "config" || name == "version":
			return fmt.Errorf("--config %s: line %d: unknown setting %q", path, s.Line, s.Name)
		case flag.Changed:
			continue
		}
		value := s.Value
		if name == "bind" {
			value = strings.Join(strings.Fields(value), ",")
		}
		if flag.Value.Type() == "bool" {
			value = strings.NewReplacer("yes", "true", "no", "false").Replace(value)
		}
		if err := flag.Value.Set(value); err != nil {
			return fmt.Errorf("--config %s: line %d: %s: %w", path, s.Line, s.Name, err)
		}
	}
	return nil
}
