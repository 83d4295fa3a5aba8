package durable

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/counter/internal/core"

	"github.com/counterd/counterd/persist/format"
)

// Packing compresses the log that is kept only for RetainBytes and cursors of the feed, in the background: segments that end below the newest
// snapshot, so that a start reads none of them, unless that snapshot is bad. One goroutine does it, segment by segment,
// oldest first. It works for a quarter of the time at most, and for a twentieth while the server is busy. It holds no lock that
// others wait for.
//
// A snapshot says that segments may be packed before the first one is (format.Manifest.LogPacked), so that an older
// program refuses the directory.
type Packing struct {
	s         *core.Data
	retention *Retention

	on     atomic.Bool
	failed bool // the last attempt; it was told

	quit, done chan struct{} // nil where data is in memory only
}

const (
	// packShare is how many times the time of work is idle time behind it. With a quarter of a processor 30 to 60 MB of log
	// a second are packed; the fastest writers make about 20.
	packShare = 3
	// packBusyShare is that while the process takes more than packBusy of its processors for other work. A quarter of a processor for
	// compression cost 0.2 us of 0.7 us for each INCR of a server that was asked for as many as it could. A twentieth packs 5 to 10 MB a
	// second. Log that comes faster reaches back less far, as it is removed before it is compressed.
	packBusyShare = 19
	packBusy      = 0.5
	// packTurn is the time of work between two pauses. A server with one processor serves nobody meanwhile: with 5 ms,
	// one operation in a hundred waited that long while the log was packed. A chunk takes 0.1 to 0.3 ms, so there is a pause behind
	// one to three.
	packTurn = 250 * time.Microsecond
	// PackRetry is the pause after a failure: a disk in trouble is not made better by more work.
	PackRetry = time.Minute
)

// Init makes it for s, before start.
func (p *Packing) Init(s *core.Data, retention *Retention, on bool) {
	p.s, p.retention = s, retention
	p.on.Store(on)
}

func (p *Packing) Start() {
	p.quit, p.done = make(chan struct{}), make(chan struct{})
	if p.s.Config.Manual {
		close(p.done)
		return
	}
	go p.run()
}

// Stop is called once.
func (p *Packing) Stop() {
	if p.quit != nil {
		close(p.quit)
		<-p.done
	}
}

// run looks each second, as the snapshotter does.
func (p *Packing) run() {
	defer close(p.done)
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	for {
		select {
		case <-p.quit:
			return
		case <-timer.C:
		}
		pause := time.Second
		if !p.PackAll(p.pacer()) {
			pause = PackRetry
		}
		timer.Reset(pause)
	}
}

// PackAll packs all that may be, and returns false if it has to give up for a while.
func (p *Packing) PackAll(pace func() error) bool {
	for p.on.Load() && p.retention.keeps() {
		manifests := p.s.Dir.Manifests()
		if len(manifests) == 0 || !manifests[0].LogPacked {
			return true // the next snapshot
		}
		packed, err := p.s.Log.Packer().Pack(manifests[0].Replay, pace)
		var damaged *format.CorruptError
		switch {
		case errors.As(err, &damaged):
			p.s.Config.Logger.Error("a retained log segment is damaged; not compressing it", "error", err)
		case errors.Is(err, format.ErrClosed):
			return true
		case err != nil:
			if !p.failed {
				p.s.Config.Logger.Warn("cannot compress the log; keeping it uncompressed", "error", err)
			}
			p.failed = true
			return false
		case !packed:
			return true
		}
		p.failed = false
	}
	return true
}

// pacer returns a function to be called now and then while work is done: it takes its time.
func (p *Packing) pacer() func() error {
	began := time.Now()
	var use processorUse
	return func() error {
		if worked := time.Since(began); worked >= packTurn {
			idle := time.NewTimer(packRest(worked, use.look(worked)))
			defer idle.Stop()
			select {
			case <-p.quit:
			case <-idle.C:
			}
			began = time.Now()
		}
		select {
		case <-p.quit:
			return format.ErrClosed
		default:
			return nil
		}
	}
}

// packRest is the idle time behind a stretch of work, where the rest of the process takes a share of its processors.
func packRest(worked time.Duration, use float64) time.Duration {
	if use > packBusy {
		return packBusyShare * worked
	}
	return packShare * worked
}

// SetOn changes Options.CompressLog.
func (p *Packing) SetOn(on bool) { p.on.Store(on) }
