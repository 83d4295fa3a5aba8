package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Journal is the rounds of all runs in a folder. Each round is a line, written when the round ends; the first line is the header.
// Its methods may be called from several goroutines.
type Journal struct {
	mu     sync.Mutex
	file   *os.File
	Header Header
	rounds []Round
}

// Header says what the rounds of a journal tested.
type Header struct {
	Commit  string    `json:"commit"` // "…-dirty" with changes that are not committed
	Go      string    `json:"go"`
	Machine string    `json:"machine"`
	Began   time.Time `json:"began"`
	LeftOut []string  `json:"left_out,omitempty"` // steps that this machine cannot run, each with the reason
}

// OtherCommitError is that a folder has rounds of another commit.
type OtherCommitError struct{ Folder, Got, Want string }

func (e *OtherCommitError) Error() string {
	return fmt.Sprintf("%s has the rounds of commit %s, and this is commit %s: choose another folder, or remove that one", e.Folder, e.Got, e.Want)
}

// openJournal reads the journal of a folder, or begins one. A last line without its end, of a run that was killed, is cut off.
func openJournal(folder string, header Header) (*Journal, error) {
	if err := os.MkdirAll(filepath.Join(folder, "findings"), 0o755); err != nil {
		return nil, err
	}
	j := &Journal{}
	old, rounds, whole, err := readJournal(folder)
	if errors.Is(err, fs.ErrNotExist) || err == nil && whole == 0 {
		old, err = header, nil
	}
	if err != nil {
		return nil, err
	}
	if old.Commit != header.Commit {
		return nil, &OtherCommitError{folder, old.Commit, header.Commit}
	}
	j.Header, j.rounds = old, rounds
	if j.file, err = os.OpenFile(journalPath(folder), os.O_CREATE|os.O_RDWR, 0o644); err != nil {
		return nil, err
	}
	if err := j.file.Truncate(int64(whole)); err != nil {
		return nil, err
	}
	if _, err := j.file.Seek(int64(whole), 0); err != nil {
		return nil, err
	}
	if whole == 0 {
		return j, j.write(header)
	}
	return j, nil
}

func journalPath(folder string) string { return filepath.Join(folder, "journal.jsonl") }

// readJournal reads the whole lines of a journal, which end at the byte whole.
func readJournal(folder string) (header Header, rounds []Round, whole int, err error) {
	content, err := os.ReadFile(journalPath(folder))
	if err != nil {
		return header, nil, 0, err
	}
	for line := range splitLines(content) {
		if whole == 0 {
			err = json.Unmarshal(line, &header)
		} else {
			var r Round
			err = json.Unmarshal(line, &r)
			rounds = append(rounds, r)
		}
		if err != nil {
			return header, nil, 0, fmt.Errorf("%s at byte %d: %w", journalPath(folder), whole, err)
		}
		whole += len(line) + 1
	}
	return header, rounds, whole, nil
}

// splitLines yields lines that have their end, without it.
func splitLines(content []byte) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(content) > 0 {
			n, line, err := bufio.ScanLines(content, false)
			if n == 0 || err != nil || !yield(line) {
				return
			}
			content = content[n:]
		}
	}
}

func (j *Journal) write(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = j.file.Write(append(line, '\n'))
	return err
}

// Add writes a round that ended.
func (j *Journal) Add(r Round) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rounds = append(j.rounds, r)
	return j.write(r)
}

// Rounds returns all rounds so far, the oldest first.
func (j *Journal) Rounds() []Round {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]Round(nil), j.rounds...)
}

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }
