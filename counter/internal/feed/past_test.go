package feed

import (
	"errors"
	"testing"

	"github.com/counterd/counterd/persist/format"
)

func pastOf(replica bool, terms ...format.Term) *format.Lineage {
	return &format.Lineage{Replica: replica, Terms: terms}
}

// cutBy is the past of a log that a repair cut below its snapshot.
func cutBy(terms ...format.Term) *format.Lineage {
	return &format.Lineage{NeedsSnapshot: true, Terms: terms}
}

func term(id byte, epoch uint32, start uint64) format.Term {
	return format.Term{ReplID: format.ReplID{id}, Epoch: epoch, Start: start}
}

// TestCheck: which positions a log continues, which it has not come to, and where it parts from others.
func TestCheck(t *testing.T) {
	writer := pastOf(false, term(1, 1, 0), term(2, 2, 500)) // whose log the positions are of
	at := func(offset uint64) Position { return positionAt(writer, offset) }
	for name, w := range map[string]struct {
		p     Position
		l     *format.Lineage
		end   uint64
		ahead bool
		cut   int64 // common offset; -1: none is known; 0: no error
	}{
		"the same log":        {at(600), writer, 700, false, 0},
		"its end":             {at(700), writer, 700, false, 0},
		"an older term":       {at(400), writer, 700, false, 0},
		"where a term begins": {at(500), pastOf(false, term(1, 1, 0), term(3, 3, 500)), 900, false, 0},
		"nothing":             {at(0), pastOf(false, term(1, 1, 0), term(3, 3, 500)), 900, false, 0},
		"nothing, and a start before the first change": {at(0), pastOf(false, term(9, 2, 0)), 900, false, 0},
		"nothing, and a log that a repair cut":         {at(0), cutBy(term(9, 2, 0)), 900, false, -1},
		"nothing, of a log that a repair cut before":   {at(0), cutBy(term(1, 1, 0), term(2, 2, 500)), 900, false, 0},
		"a replica that is behind":                     {at(600), pastOf(true, term(1, 1, 0), term(2, 2, 500)), 450, true, 0},
		"a replica that lacks the term":                {at(600), pastOf(true, term(1, 1, 0)), 450, true, 0},
		"one that has never heard of either":           {at(600), pastOf(true, term(9, 1, 0)), 450, true, 0},
		"the next primary has it":                      {at(600), pastOf(false, term(1, 1, 0), term(2, 2, 500), term(3, 3, 650)), 800, false, 0},
		"the next primary lacks some":                  {at(600), pastOf(false, term(1, 1, 0), term(2, 2, 500), term(3, 3, 550)), 800, false, 550},
		"the next primary lacks the term":              {at(600), pastOf(false, term(1, 1, 0), term(3, 2, 480)), 800, false, 480},
		"an old primary that was cut off":              {at(600), pastOf(false, term(1, 1, 0)), 480, true, 0},
		"one that went on by itself":                   {at(600), pastOf(false, term(1, 1, 0)), 520, false, 500},
		"a replica of another history":                 {at(600), pastOf(true, term(1, 1, 0), term(3, 2, 480)), 800, false, 480},
		"a restored replica without a link":            {at(600), pastOf(true, term(1, 1, 0), term(2, 2, 500), term(4, 3, 550)), 550, true, 0},
		"a restored primary":                           {at(600), pastOf(false, term(1, 1, 0), term(2, 2, 500), term(4, 3, 550)), 550, false, 550},
		"another log":                                  {at(600), pastOf(false, term(9, 9, 0)), 800, false, -1},
		"a backup's copy, named anew":                  {at(400), pastOf(false, term(8, 2, 0)), 800, false, -1},
	} {
		ahead, err := w.p.check(w.l, w.end, false)
		var cut *HistoryError
		errors.As(err, &cut)
		switch {
		case w.cut == 0 && (err != nil || ahead != w.ahead):
			t.Errorf("%s: got %t, %v, want %t", name, ahead, err, w.ahead)
		case w.cut == -1 && (cut == nil || cut.Known):
			t.Errorf("%s: got %v, want another history", name, err)
		case w.cut > 0 && (cut == nil || cut.Common.Offset() != uint64(w.cut)):
			t.Errorf("%s: got %v, want a common offset of %d", name, err, w.cut)
		case w.cut > 0:
			if ahead, err := cut.Common.check(w.l, w.end, false); ahead || err != nil {
				t.Errorf("%s: the common position %s: %t, %v", name, cut.Common, ahead, err)
			}
		}
		if _, err := w.p.check(w.l, w.end, true); w.cut != 0 && (!errors.As(err, &cut) || cut.Known) {
			t.Errorf("%s, with moves: got %v, want no common position", name, err)
		}
	}
}
