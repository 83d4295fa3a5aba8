package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A Shown says how the tests of a fault end when its mend is reversed.
type Shown string

const (
	found  Shown = "found"
	hangs  Shown = "found: hangs"      // the tests exceed their limit, and with the mend they do not
	missed Shown = "NOT FOUND"         // the tests pass
	slow   Shown = "NO RESULT"         // the tests exceed their limit with the mend too
	unfit  Shown = "CANNOT BE APPLIED" // the patch fits no place of the tree, or the result does not compile
)

// A Result is the end of one reversal.
type Result struct {
	N       int     `json:"n"`
	State   string  `json:"state"` // of the tree that was tested
	Shown   Shown   `json:"shown"`
	By      string  `json:"by"` // the tests that fail or hang; or the tests that pass, or the reason that the patch cannot be applied
	Seconds float64 `json:"seconds"`
}

func (r Result) String() string {
	return fmt.Sprintf("%4d  %-17s  %6.1f s  %s", r.N, r.Shown, r.Seconds, r.By)
}

// A record keeps results in a file, a line each, so that an interrupted run can be resumed. Results of another state of the tree stay
// in the file and are not read.
type record struct {
	file  *os.File // nil: results are kept for this run alone
	state string
	got   map[int]Result
}

// openRecord reads the results of a state of the tree. Without a name, nothing is kept.
func openRecord(name, state string) (*record, error) {
	r := &record{state: state, got: map[int]Result{}}
	if name == "" {
		return r, nil
	}
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	whole := bytes.LastIndexByte(text, '\n') + 1 // a process that was killed may have left half a line
	for lines := bufio.NewScanner(bytes.NewReader(text[:whole])); lines.Scan(); {
		var one Result
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return nil, fmt.Errorf("%s: %q is no result: %w", name, lines.Bytes(), err)
		}
		if one.State == state {
			r.got[one.N] = one
		}
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	if r.file, err = os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		return nil, err
	}
	if err := r.file.Truncate(int64(whole)); err != nil {
		return nil, errors.Join(err, r.file.Close())
	}
	_, err = r.file.Seek(int64(whole), 0)
	return r, err
}

// add keeps a result and prints it.
func (r *record) add(one Result) error {
	one.State = r.state
	r.got[one.N] = one
	fmt.Println(one)
	if r.file == nil {
		return nil
	}
	line, err := json.Marshal(one)
	if err != nil {
		return err
	}
	_, err = r.file.Write(append(line, '\n'))
	return err
}

func (r *record) close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// treeState names the state of the tree at root: its commit, and a checksum of the changes that are not committed.
func treeState(root string) (string, error) {
	git := func(args ...string) ([]byte, error) {
		cmd := exec.Command("git", args...)
		cmd.Dir = root
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
		}
		return out, nil
	}
	commit, err := git("rev-parse", "--short=12", "HEAD")
	if err != nil {
		return "", err
	}
	diff, err := git("diff", "HEAD")
	if err != nil {
		return "", err
	}
	state := string(bytes.TrimSpace(commit))
	if len(diff) > 0 {
		state += fmt.Sprintf("+%x", sha256.Sum256(diff))[:13]
	}
	return state, nil
}
