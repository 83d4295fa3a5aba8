package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/net/tlsconf"
	"github.com/counterd/counterd/cmd/counterd/internal/server"
	"github.com/counterd/counterd/cmd/internal/manual"
	"github.com/counterd/counterd/schema"
)

// question holds the flags with which counterd prints something and does not start.
type question struct {
	check      *bool
	man        *bool
	completion *string
	health     *int
}

func questions(fs *pflag.FlagSet) question {
	return question{
		check:      fs.Bool("check-config", false, "Check the settings, the configuration file and the schema script, report what is wrong, and exit."),
		man:        fs.Bool("man", false, "Print the manual page and exit."),
		completion: fs.String("completion", "", "Print the completion script for a `SHELL` (bash, zsh or fish) and exit."),
		health:     fs.Int("health-check", 0, "Check whether the counterd with process id `PID` serves clients, and exit with status 0 or 1. For health checks of containers, where the PID is 1."),
	}
}

// answer handles the flags that print something and exit; done tells that there was one.
func (q question) answer(fs *pflag.FlagSet) (done bool, err error) {
	switch {
	case *q.man:
		return true, description(fs).Man(os.Stdout, server.ServerVersion)
	case fs.Changed("completion"):
		return true, description(fs).Complete(os.Stdout, *q.completion)
	case fs.Changed("health-check"):
		return true, healthCheck(*q.health)
	}
	return false, nil
}

// description is the program for its manual page.
func description(fs *pflag.FlagSet) *manual.Program {
	var groups []manual.Group
	for _, section := range config.Describe() {
		g := manual.Group{Title: section.Title}
		for _, d := range section.Settings {
			if f := fs.Lookup(d.Name); f != nil {
				g.Flags = append(g.Flags, d.Name)
				f.Annotations = map[string][]string{manual.ArgAnnotation: {d.Arg}}
			}
		}
		if len(g.Flags) > 0 {
			groups = append(groups, g)
		}
	}
	return &manual.Program{Groups: groups, Name: "counterd", Summary: "a counter service for posts that speaks the Redis protocol", Section: 8, Args: "[FILE]", Flags: fs,
		Description: "Serves counters of posts to Redis clients. Settings come from the command line and from a file in the syntax of redis.conf (--config). The " +
			"command line takes precedence. CONFIG GET shows the settings in force, CONFIG SET changes many of them, and CONFIG REWRITE writes them to the file.\n\n" +
			"Settings of redis.conf that have no meaning in counterd are ignored, and the log names them. A setting that would change what clients see is an error.",
		Notes: []manual.Note{
			{Title: "Signals", Text: "TERM and INT stop the server in order: all acknowledged changes are in the log. A second signal ends the process at once. HUP reads TLS certificates and keys again."},
			{Title: "Exit status", Text: "0 after an orderly stop and after --version, --man and similar flags. 1 if a setting is invalid, the data is damaged, or a port is in use."},
			{Title: "Files", Text: "/etc/counterd/counterd.conf  settings of the packaged service\n\n/var/lib/counterd  data directory of the packaged service"}},
		SeeAlso: []string{"counterctl(1)", "counterbench(1)", "redis-cli(1)"}}
}

// checked is the end of --check-config: c is valid, and passed are settings of Redis that have no meaning here.
func checked(c config.Config, passed []string) error {
	if c.SchemaFile != "" {
		f, err := os.Open(c.SchemaFile)
		if err != nil {
			return fmt.Errorf("--schema: %w", err)
		}
		_, err = schema.ParseScript(f, schema.Empty())
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("--schema: %s: %w", c.SchemaFile, err)
		}
	}
	if _, err := tlsconf.Load(c.TLS); err != nil {
		return err
	}
	if err := server.CheckUsers(&c); err != nil {
		return err
	}
	for _, name := range passed {
		fmt.Printf("%s: ignored, this setting of Redis has no meaning in counterd\n", name)
	}
	if !c.AppendOnly {
		fmt.Println("appendonly no: data is kept in memory only and is lost when the process ends")
	}
	fmt.Println("configuration OK")
	return nil
}
