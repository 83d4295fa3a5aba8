package backup

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Pruned is the list of objects that Prune removed.
type Pruned struct {
	Backups []string
	Others  []*Index // the newest of each other line, of which nothing was removed
	Objects int
	Bytes   int64
}

// Prune removes, of each store, all backups but the newest keep (at least 1), and then the objects that no backup names.
// With of, a backup in the place, it removes only those of its store: backups that another line needs stay. With a
// backup whose index cannot be read nothing is removed: its objects are not known. REQUIRES: the caller holds the lock.
func Prune(ctx context.Context, s Store, keep int, of *Index) (done Pruned, err error) {
	if keep < 1 {
		return done, fmt.Errorf("got %d backups to keep, want 1 or more", keep)
	}
	list, bad, err := List(ctx, s)
	if err != nil {
		return done, err
	}
	if len(bad) > 0 {
		return done, fmt.Errorf("nothing is removed, as it is not known what this needs: %w", errors.Join(bad...))
	}
	lines, err := newLines(ctx, s, list)
	if err != nil {
		return done, err
	}
	kept := make(map[*Index]bool)
	for _, end := range lines.ends() {
		line := lines.line(end)
		if of == nil || of.Name == end.Name {
			line = line[max(len(line)-keep, 0):]
		} else {
			done.Others = append(done.Others, end)
		}
		for _, x := range line {
			kept[x] = true
		}
	}
	for _, x := range list {
		if kept[x] {
			continue
		}
		if err := s.Remove(ctx, indexPrefix+x.Name+indexSuffix); err != nil {
			return done, err
		}
		done.Backups = append(done.Backups, x.Name)
	}
	needed := make(map[string]bool)
	for x := range kept {
		for _, f := range x.Files {
			needed[object(f.SHA256)] = true
		}
	}
	var names []string
	sizes := make(map[string]int64)
	err = s.List(ctx, "objects/", func(name string, bytes int64) error {
		if !needed[name] && strings.HasSuffix(name, ".zst") {
			names, sizes[name] = append(names, name), bytes
		}
		return nil
	})
	if err != nil {
		return done, err
	}
	for _, name := range names {
		if err := s.Remove(ctx, name); err != nil {
			return done, err
		}
		done.Objects++
		done.Bytes += sizes[name]
	}
	return done, nil
}
