package client

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// columnCache is the list of columns that a client knows. It is the server's SCHEMA, read again when it is too old or lacks
// a name; one goroutine reads it while the others wait.
type columnCache struct {
	schema  func(ctx context.Context) ([]any, error) // the lines that SCHEMA answers
	counter string                                   // empty for the schema's first
	braces  bool                                     // keys have their mid in braces
	maxAge  time.Duration
	clock   *clock

	known   atomic.Pointer[columns] // nil until they were read
	reading chan struct{}           // holds one element while a goroutine reads them
}

// find finds a column by name or suffix, and reads the schema for a name that it does not know.
func (cc *columnCache) find(ctx context.Context, column string) (*columns, int, error) {
	cs := cc.known.Load()
	if i := cs.find(column); i >= 0 {
		return cs, i, nil
	}
	// A name that is nowhere is asked for once a second, whatever it costs the callers who wait for each other here.
	cs, err := cc.read(ctx, time.Second)
	if err != nil {
		return nil, 0, err
	}
	if i := cs.find(column); i >= 0 {
		return cs, i, nil
	}
	return nil, 0, &ColumnError{cs.counter, column}
}

// choose finds the columns of a read. anew reads the schema first, as something in it was found to be gone.
func (cc *columnCache) choose(ctx context.Context, names []string, anew bool) (*columns, []int, error) {
	age := cc.maxAge
	if anew {
		age = 0
	}
	cs, err := cc.read(ctx, age)
	if err != nil {
		if cs = cc.known.Load(); cs == nil || anew {
			return nil, nil, err
		} // the reads may be answered all the same, by columns that were there a moment ago
	}
	if len(names) == 0 {
		list := make([]int, len(cs.names))
		for i := range list {
			list[i] = i
		}
		return cs, list, nil
	}
	list := make([]int, len(names))
	for i := 0; i < len(names); i++ {
		if list[i] = cs.find(names[i]); list[i] < 0 {
			if cs, _, err = cc.find(ctx, names[i]); err != nil {
				return nil, nil, err
			}
			i = -1 // places are those of the newer list
		}
	}
	return cs, list, nil
}

// current gives columns that are younger than maxAge.
func (cc *columnCache) current(ctx context.Context) (*columns, error) { return cc.read(ctx, cc.maxAge) }

// read gives columns that are younger than age, and reads the schema if those that it knows are not.
func (cc *columnCache) read(ctx context.Context, age time.Duration) (*columns, error) {
	fresh := func() *columns {
		if cs := cc.known.Load(); cs != nil && cc.clock.now().Sub(cs.read) < age {
			return cs
		}
		return nil
	}
	if cs := fresh(); cs != nil {
		return cs, nil
	}
	select {
	case cc.reading <- struct{}{}:
		defer func() { <-cc.reading }()
	case <-ctx.Done():
		return nil, unsent(ctx)
	}
	if cs := fresh(); cs != nil { // read while we waited
		return cs, nil
	}
	lines, err := cc.schema(ctx)
	if err != nil {
		return nil, err
	}
	var script strings.Builder
	for _, line := range lines {
		fmt.Fprintln(&script, line)
	}
	cs, err := parseColumns(script.String(), cc.counter)
	if err != nil {
		return nil, err
	}
	cs.braces, cs.read = cc.braces, cc.clock.now()
	cc.known.Store(cs)
	return cs, nil
}
