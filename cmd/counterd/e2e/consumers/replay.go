package consumers

import (
	"encoding/json"
	"fmt"
)

// Replay is the posts behind the changes that a consumer was given.
//
// Invariant: each increment of a post is the one behind the last, unless Repeats allows that changes come again.
type Replay struct {
	Posts   map[string]int64
	Repeats bool // the sink takes a change at least once
	Lines   int
	Again   int // changes that came again

	deleted map[string]bool // posts that were deleted once: a repeat may be of the time before
}

// NewReplay has no posts.
func NewReplay(repeats bool) *Replay {
	return &Replay{Posts: map[string]int64{}, Repeats: repeats, deleted: map[string]bool{}}
}

// Add applies the next lines. An error says that a change was lost, came twice or came too early.
func (r *Replay) Add(lines []string) error {
	for _, line := range lines {
		var change struct {
			Position string
			Parts    []struct {
				Kind, Mid string
				Values    map[string]int64
			}
		}
		if err := json.Unmarshal([]byte(line), &change); err != nil || change.Position == "" {
			return fmt.Errorf("line %d is %q: %v", r.Lines, line, err)
		}
		r.Lines++
		for _, p := range change.Parts {
			switch p.Kind {
			case "set":
				for _, value := range p.Values {
					if err := r.set(p.Mid, value); err != nil {
						return fmt.Errorf("line %d %q: %w", r.Lines-1, line, err)
					}
				}
			case "del":
				if _, there := r.Posts[p.Mid]; !there && !r.Repeats {
					return fmt.Errorf("line %d: post %s is deleted and was not there", r.Lines-1, p.Mid)
				}
				delete(r.Posts, p.Mid)
				r.deleted[p.Mid] = true
			}
		}
	}
	return nil
}

func (r *Replay) set(mid string, value int64) error {
	last := r.Posts[mid]
	switch {
	case value == last+1:
	case r.Repeats && (value <= last || r.deleted[mid]):
		r.Again++
	default:
		return fmt.Errorf("post %s has %d behind %d", mid, value, last)
	}
	r.Posts[mid] = value
	return nil
}
