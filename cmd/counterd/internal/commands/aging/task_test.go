package aging

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestTask: one run at a time, none for its pause after a failure, and none once the task was closed.
func TestTask(t *testing.T) {
	k := task{pause: time.Minute}
	now := time.Unix(1e9, 0)
	runs := 0
	run := func(err error) {
		t.Helper()
		k.start(now, func() error { runs++; return err })
		if done := k.underway(); done != nil {
			<-done
		}
	}
	run(nil)
	run(errors.New("the disk is full"))
	if runs != 2 || k.ready(now) || k.ready(now.Add(k.pause-1)) || !k.ready(now.Add(k.pause)) {
		t.Errorf("%d runs, and the next may follow a failure at once", runs)
	}
	if !k.ready(now.Add(-time.Second)) {
		t.Error("a clock that was set back makes a failure last longer")
	}
	k.Close(t.Context())
	if run(nil); runs != 2 || k.ready(now.Add(time.Hour)) {
		t.Error("a run has begun behind Close")
	}
}

// TestTaskHangs: a run that hangs on the disk keeps neither Look nor, when the time of the shutdown is over, Close waiting.
func TestTaskHangs(t *testing.T) {
	var k task
	hangs, ended := make(chan struct{}), make(chan struct{})
	k.start(time.Unix(1e9, 0), func() error {
		<-hangs
		close(ended)
		return nil
	})
	if k.ready(time.Unix(2e9, 0)) {
		t.Error("a second run may begin")
	}
	k.start(time.Unix(2e9, 0), func() error { panic("two runs at a time") })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	k.Close(ctx)
	close(hangs)
	<-ended
	k.Close(t.Context())
	if k.underway() != nil {
		t.Error("Close has not waited")
	}
}
