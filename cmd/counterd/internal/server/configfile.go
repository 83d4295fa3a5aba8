package server

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The configuration file: redis.conf's syntax. A line is a parameter's name and its value, or a comment that begins with #; values with
// spaces stand in double quotes.

// Setting is one line of a configuration file.
type Setting struct {
	Name  string // lower case
	Value string // words parted by one space
	Line  int
}

// ReadConfigFile reads the settings of a file. It does not know which names there are. With an error about lines come the settings of the others.
func ReadConfigFile(path string) ([]Setting, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseConfig(string(data))
}

func parseConfig(text string) (settings []Setting, err error) {
	var errs []error
	scanner := bufio.NewScanner(strings.NewReader(text))
	for n := 1; scanner.Scan(); n++ {
		words, err := splitConfigLine(scanner.Text())
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", n, err))
		}
		if err != nil || len(words) == 0 {
			continue
		}
		settings = append(settings, Setting{strings.ToLower(words[0]), strings.Join(words[1:], " "), n})
	}
	return settings, errors.Join(append(errs, scanner.Err())...)
}

// splitConfigLine splits a line into words. A comment has none.
func splitConfigLine(line string) (words []string, err error) {
	for {
		line = strings.TrimLeft(line, " \t\r")
		if line == "" || line[0] == '#' && len(words) == 0 {
			return words, nil
		}
		if line[0] == '"' || line[0] == '\'' {
			quoted, err := strconv.QuotedPrefix(line)
			if line[0] == '\'' {
				end := strings.IndexByte(line[1:], '\'')
				if end < 0 {
					return nil, errors.New("a quote is not closed")
				}
				words, line = append(words, line[1:end+1]), line[end+2:]
				continue
			}
			if err != nil {
				return nil, errors.New("a quote is not closed")
			}
			word, _ := strconv.Unquote(quoted) // QuotedPrefix has checked it
			words, line = append(words, word), line[len(quoted):]
			continue
		}
		end := strings.IndexAny(line, " \t\r")
		if end < 0 {
			end = len(line)
		}
		words, line = append(words, line[:end]), line[end:]
	}
}

// quoteConfig writes a value so that splitConfigLine reads it.
func quoteConfig(v string, words bool) string {
	if v == "" || strings.ContainsAny(v, "\"'#\\\n\t") || !words && strings.Contains(v, " ") {
		return strconv.Quote(v)
	}
	return v
}

// rewriteConfig returns a file's text with the parameters of the configuration in force: lines are changed in their place, and what
// differs from the default and is not there is added at the end. Comments and unknown lines stay.
func rewriteConfig(text string, c *Config) string {
	defaults := DefaultConfig()
	done := make(map[string]bool)
	var out strings.Builder
	write := func(p *parameter) {
		words := p.name == "bind" || p.name == "replicaof" || p.name == "client-output-buffer-limit"
		out.WriteString(p.name + " " + quoteConfig(p.get(c), words) + "\n")
	}
	for line := range strings.Lines(text) {
		words, err := splitConfigLine(line)
		if err != nil || len(words) == 0 {
			out.WriteString(strings.TrimRight(line, "\n") + "\n")
			continue
		}
		name := strings.ToLower(words[0])
		p := findParameter(modern(name))
		if p == nil {
			out.WriteString(strings.TrimRight(line, "\n") + "\n")
			continue
		}
		if done[p.name] {
			continue
		}
		done[p.name] = true
		if isRoleLine(p.name) && p.get(c) == "" {
			continue
		}
		if fixed := p.get(&defaults) == p.get(c) && p.set == nil && !isRoleLine(p.name); fixed || strings.Join(words[1:], " ") == p.get(c) {
			out.WriteString(strings.TrimRight(line, "\n") + "\n")
			continue
		}
		write(p)
	}
	for i := range parameters {
		if p := &parameters[i]; !done[p.name] && modern(p.name) == p.name && p.get(c) != p.get(&defaults) && p.name != "schema" {
			write(p)
		}
	}
	return out.String()
}

// modern gives a parameter's present name.
func modern(name string) string {
	return strings.NewReplacer("slaves", "replicas", "slave", "replica").Replace(name)
}

// writeFileAtomic replaces a file, durably.
func writeFileAtomic(path, text string) error {
	mode := os.FileMode(0o600) // it holds passwords
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is the one to tell
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func runConfigRewrite(c *client, _ [][]byte) {
	config := c.srv.config.get()
	if config.ConfigFile == "" {
		c.error("ERR The server is running without a config file")
		return
	}
	text, err := os.ReadFile(config.ConfigFile)
	if err == nil || errors.Is(err, os.ErrNotExist) {
		err = writeFileAtomic(config.ConfigFile, rewriteConfig(string(text), &config))
	}
	if err != nil {
		c.srv.log.Error("CONFIG REWRITE failed", "file", config.ConfigFile, "error", err)
		c.error("ERR Rewriting config file: " + err.Error())
		return
	}
	c.ok()
}
