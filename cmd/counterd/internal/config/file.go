package config

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/counterd/counterd/internal/atomicfile"
)

// The configuration file: redis.conf's syntax. A line is a setting's name and its value, or a comment that begins with
// #; values with spaces stand in double quotes.

// Line is one line of a configuration file.
type Line struct {
	Name   string // lower case
	Value  string // words parted by one space
	Number int
}

// Parse reads the lines of a file's text. It does not know which names there are. With an error about lines come the
// others.
func Parse(text string) (lines []Line, err error) {
	var errs []error
	scanner := bufio.NewScanner(strings.NewReader(text))
	for n := 1; scanner.Scan(); n++ {
		words, err := splitLine(scanner.Text())
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", n, err))
		}
		if err != nil || len(words) == 0 {
			continue
		}
		lines = append(lines, Line{strings.ToLower(words[0]), strings.Join(words[1:], " "), n})
	}
	return lines, errors.Join(append(errs, scanner.Err())...)
}

// splitLine splits a line into words. A comment has none.
func splitLine(line string) (words []string, err error) {
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

// quote writes a value so that splitLine reads it.
func quote(v string, words bool) string {
	if v == "" || strings.ContainsAny(v, "\"'#\\\n\t") || !words && strings.Contains(v, " ") {
		return strconv.Quote(v)
	}
	return v
}

// Rewrite is CONFIG REWRITE: it writes the changed settings to the file that c came from. It is made if it is not
// there.
func (c *Config) Rewrite() error {
	text, err := os.ReadFile(c.ConfigFile)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return writeFileAtomic(c.ConfigFile, rewrite(string(text), c))
}

// rewrite returns a file's text with the configuration in force: lines are changed in their place, and settings that
// differ from the default and have no line are added at the end. Comments and unknown lines stay.
func rewrite(text string, c *Config) string {
	defaults := Default()
	done := make(map[string]bool)
	var out strings.Builder
	keep := func(line string) { out.WriteString(strings.TrimRight(line, "\n") + "\n") }
	users := func() { // all in the place of the first
		if !done["user"] {
			for _, u := range c.Users {
				out.WriteString("user " + u + "\n")
			}
		}
		done["user"] = true
	}
	write := func(p *parameter) { out.WriteString(p.name + " " + quote(p.get(c), p.words) + "\n") }
	for line := range strings.Lines(text) {
		words, err := splitLine(line)
		if err != nil || len(words) == 0 {
			keep(line)
			continue
		}
		if strings.EqualFold(words[0], "user") {
			users()
			continue
		}
		p := find(modern(strings.ToLower(words[0])))
		if p == nil {
			keep(line)
			continue
		}
		if done[p.name] {
			continue
		}
		done[p.name] = true
		switch value := p.get(c); {
		case p.role && value == "":
		case p.name == "save" && !c.AppendOnly: // or the file would be refused: see errSnapshots
			write(p)
		case !p.role && !p.live && value == p.get(&defaults), strings.Join(words[1:], " ") == value:
			keep(line)
		default:
			write(p)
		}
	}
	for i := range parameters {
		if p := &parameters[i]; !done[p.name] && p.name == p.setting.name && !p.once && p.get(c) != p.get(&defaults) && !c.elsewhere(p.name) {
			write(p)
		}
	}
	if !c.AppendOnly && !done["save"] {
		write(find("save"))
	}
	users()
	return out.String()
}

// elsewhere tells whether the value of a setting stands in a file of its own.
func (c *Config) elsewhere(name string) bool {
	return name == "requirepass" && c.RequirePassFile != "" || name == "masterauth" && c.MasterAuthFile != ""
}

// writeFileAtomic replaces a file, durably.
func writeFileAtomic(path, text string) error {
	mode := os.FileMode(0o600) // it holds passwords
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	return atomicfile.Replace(path, mode, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}
