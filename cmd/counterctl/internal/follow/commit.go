package follow

import (
	"context"
	"time"
)

// commit makes the window, once everything is noted that would be forgotten by a crash.
func (f *follower) commit(ctx context.Context) error {
	w := f.in.window
	if len(w.changes) == 0 {
		return nil
	}
	if err := f.note(); err != nil {
		return err
	}
	begin := f.end
	if err := f.journal.write(note{Window: &begin}, false); err != nil {
		return err
	}
	refused, err := f.target.commit(ctx, w, f.offset)
	if err != nil {
		return err
	}
	for _, n := range refused {
		if err := f.in.stale.add(w.changes[n].ref, true); err != nil {
			return err
		}
	}
	f.result.Changes += uint64(len(w.changes))
	f.end = f.offset
	f.applied.Store(f.end)
	f.in.window = newWindow(f.Rules.Columns())
	return f.note()
}

// note writes which keys became stale, and which are not any more, and which database is selected. Afterwards the
// disk has the state that the rest of the stream needs.
func (f *follower) note() error {
	stale := &f.in.stale
	n := note{}
	for _, r := range stale.added {
		n.Stale = append(n.Stale, []byte(r))
	}
	for _, r := range stale.cured {
		if stale.keys[r] == nil {
			n.Fresh = append(n.Fresh, []byte(r))
		}
	}
	selected := f.journal.state.selected
	if db := f.in.selected; len(selected) == 0 || selected[len(selected)-1].db != db {
		n.DB, n.Offset = &db, f.offset
	}
	stale.added, stale.cured = nil, nil
	if n.Stale == nil && n.Fresh == nil && n.DB == nil {
		return nil
	}
	return f.journal.write(n, n.Stale != nil || n.DB != nil)
}

// idle notes, once a second, that there was nothing to apply.
func (f *follower) idle() error {
	if len(f.in.window.changes) > 0 || f.end == f.offset || time.Since(f.noted) < idleEvery || !f.journal.state.copied {
		return nil
	}
	if err := f.note(); err != nil {
		return err
	}
	after := f.target.committed / perOffset
	f.noted, f.end = time.Now(), f.offset
	f.applied.Store(f.end)
	return f.journal.write(note{After: &after, Offset: f.offset}, false)
}

// flush empties the mapped columns, as the source was emptied. Earlier changes are made first; until something comes
// behind, a crash makes both again, which changes nothing.
func (f *follower) flush(ctx context.Context) error {
	if err := f.commit(ctx); err != nil {
		return err
	}
	for r := range f.in.stale.keys {
		f.in.stale.cure(r)
	}
	f.Log("the source was emptied, and so are the columns that follow it")
	return f.target.empty(ctx)
}
