package patience

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/wire"
)

func TestDo(t *testing.T) {
	loading, wrong := &wire.ServerError{Text: "LOADING data"}, &wire.ServerError{Text: "WRONGTYPE key"}
	told := 0
	p := Policy{First: time.Microsecond, Longest: time.Millisecond, Limit: Forever, Waiting: func(error) { told++ }}
	tries := 0
	if err := p.Do(t.Context(), func() (bool, error) {
		if tries++; tries < 5 {
			return false, loading
		}
		return true, nil
	}); err != nil || tries != 5 || told != 1 {
		t.Errorf("got %v after %d tries, told %d times", err, tries, told)
	}
	var spent *SpentError
	if err := p.Do(t.Context(), func() (bool, error) { return true, wrong }); !errors.As(err, &spent) || spent.Waited != 0 || !errors.Is(err, wrong) {
		t.Errorf("got %v of an error that does not pass", err)
	}
	p.Limit = time.Nanosecond
	if err := p.Do(t.Context(), func() (bool, error) { return false, loading }); !errors.As(err, &spent) || spent.Waited == 0 {
		t.Errorf("got %v when the limit is over", err)
	}
	tries = 0
	if err := (Policy{}).Do(t.Context(), func() (bool, error) { tries++; return false, loading }); !errors.Is(err, loading) || tries != 1 {
		t.Errorf("the zero policy: got %v after %d tries, want one", err, tries)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := errors.New("ended")
	p.Limit = Forever
	if err := p.Do(ctx, func() (bool, error) { cancel(ended); return false, loading }); err != ended {
		t.Errorf("got %v, want the cause of the context's end", err)
	}
}

func TestPasses(t *testing.T) {
	for text, want := range map[string]bool{"LOADING x": true, "READONLY x": true, "UNCERTAIN x": true, "IDMPEXPIRED x": false, "WRONGTYPE x": false} {
		if got := Passes(&wire.ServerError{Text: text}); got != want {
			t.Errorf("%s: got %v", text, got)
		}
	}
	if Passes(wire.ErrProtocol) || !Passes(errors.New("connection reset")) {
		t.Error("a fault of the protocol passes, or a broken connection does not")
	}
}
