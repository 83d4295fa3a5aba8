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

// question are the flags with which a server says something and does not start.
type question struct {
	check      *bool
	man        *bool
	completion *string
	health     *int
}

func questions(fs *pflag.FlagSet) question {
	return question{
		check:      fs.Bool("check-config", false, "check the settings, their file and the schema's, say what is wrong, and end"),
		man:        fs.Bool("man", false, "print the manual page and end"),
		completion: fs.String("completion", "", "print completion for a `shell`, bash, zsh or fish, and end"),
		health:     fs.Int("health-check", 0, "ask the counterd that runs as process `PID` whether it serves, and end: for containers, where it is process 1"),
	}
}

// answer answers what is asked of the program itself; done says that there was something.
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
	return &manual.Program{Name: "counterd", Summary: "a counter service for posts that speaks the Redis protocol", Section: 8, Args: "[FILE]", Flags: fs,
		Description: "Serves counters of posts to clients of Redis. Settings come from the command line and from a file in redis.conf's syntax (--config); the " +
			"command line wins. CONFIG GET shows those in force, CONFIG SET changes many of them, and CONFIG REWRITE writes the file.\n\n" +
			"A setting of redis.conf that means nothing here is passed over, and the log names it; one that others would rely on is an error.",
		Notes: []manual.Note{
			{Title: "Signals", Text: "TERM and INT end the server in order: what was acknowledged is in the log. A second one ends it at once."},
			{Title: "Exit status", Text: "0 behind an ordered end and behind a question that was answered, 1 if the settings are wrong, the data is damaged or a port is taken."},
			{Title: "Files", Text: "/etc/counterd/counterd.conf  the settings, as packages have it\n\n/var/lib/counterd  the data directory, as packages have it"}},
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
		fmt.Printf("%s: a setting of Redis that has no meaning here\n", name)
	}
	if !c.AppendOnly {
		fmt.Println("appendonly no: data is kept in memory only, and is lost when the process ends")
	}
	fmt.Println("the settings are good")
	return nil
}
