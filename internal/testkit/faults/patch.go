package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A hunk is one change of a unified diff: the lines before and after it, its context among both.
type hunk struct{ old, new string }

// A change is all hunks of one file.
type change struct {
	file  string
	hunks []hunk
}

// patchFile is where the patch is that reverses the mend of a fault.
func patchFile(root string, n int) string {
	return filepath.Join(root, filepath.FromSlash(dir), "breaks", strconv.Itoa(n)+".patch")
}

// parsePatch reads a unified diff. Text before the first file is a comment.
func parsePatch(text string) ([]change, error) {
	var all []change
	var in *hunk
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, "diff "), strings.HasPrefix(line, "index "), strings.HasPrefix(line, "--- "):
			in = nil
		case strings.HasPrefix(line, "+++ b/"):
			all = append(all, change{file: strings.TrimPrefix(line, "+++ b/")})
		case strings.HasPrefix(line, "@@ "):
			if len(all) == 0 {
				return nil, fmt.Errorf("line %d: a hunk before a file", i+1)
			}
			c := &all[len(all)-1]
			c.hunks = append(c.hunks, hunk{})
			in = &c.hunks[len(c.hunks)-1]
		case in == nil:
		case line == "":
			in.old += "\n"
			in.new += "\n"
		case line[0] == ' ':
			in.old += line[1:] + "\n"
			in.new += line[1:] + "\n"
		case line[0] == '-':
			in.old += line[1:] + "\n"
		case line[0] == '+':
			in.new += line[1:] + "\n"
		default:
			return nil, fmt.Errorf("line %d is no line of a diff: %q", i+1, line)
		}
	}
	for _, c := range all {
		if len(c.hunks) == 0 {
			return nil, fmt.Errorf("%s has no hunk", c.file)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("it changes no file")
	}
	return all, nil
}

// apply returns the text with all hunks of c made. Each hunk's lines must stand in it exactly once.
func (c change) apply(text string) (string, error) {
	for i, h := range c.hunks {
		if n := places("\n"+text, "\n"+h.old); n != 1 {
			return "", fmt.Errorf("hunk %d of %s stands there %d times, want once", i+1, c.file, n)
		}
		text = strings.TrimPrefix(strings.Replace("\n"+text, "\n"+h.old, "\n"+h.new, 1), "\n")
	}
	return text, nil
}

// places counts where part stands in text, places that overlap too: the end of one line begins the next.
func places(text, part string) (n int) {
	for {
		i := strings.Index(text, part)
		if i < 0 {
			return n
		}
		n++
		text = text[i+1:]
	}
}

// patched returns what a patch makes of the tree at root: new texts by file. Code that has moved is looked for in all files.
func patched(root, name string) (map[string]string, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	changes, err := parsePatch(string(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(name), err)
	}
	made := map[string]string{}
	for _, c := range changes {
		file, text, err := place(root, c)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(name), err)
		}
		if _, twice := made[file]; twice {
			return nil, fmt.Errorf("%s: two changes of %s", filepath.Base(name), file)
		}
		made[file] = text
	}
	return made, nil
}

// place applies a change to the file that it names, or to the only other file where it fits.
func place(root string, c change) (file, text string, err error) {
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(c.file)))
	if err == nil {
		if text, err = c.apply(string(data)); err == nil {
			return c.file, text, nil
		}
	}
	var fits []string
	err2 := eachFile(root, func(rel string) error {
		if filepath.Ext(rel) != filepath.Ext(c.file) || rel == c.file {
			return nil
		}
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(rel)))
		if err != nil {
			return err
		}
		if made, err := c.apply(string(data)); err == nil {
			fits, text = append(fits, rel), made
		}
		return nil
	})
	if err2 != nil {
		return "", "", err2
	}
	if len(fits) != 1 {
		return "", "", fmt.Errorf("%w; it fits %d other files", err, len(fits))
	}
	return fits[0], text, nil
}
