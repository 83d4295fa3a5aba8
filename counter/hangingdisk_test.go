// Scenario: reads while a write of the log does not end.

package counter

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/vfs"
)

// TestReadsOfHangingDisk: a write of the log does not end. Other posts of the same block are read at once, the changed
// one is not told, as a kill would take its change back, and changes are refused after the documented time.
func TestReadsOfHangingDisk(t *testing.T) {
	for _, policy := range []persist.SyncPolicy{SyncEverySec, SyncAlways} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				faulty := vfs.NewFaulty(vfs.NewSim())
				s := openDir(t, "data", Options{FS: faulty, HashSeed: 1, AppendFsync: policy}, "add counter a\nadd column a n hint=8 max=63 suffix=n")
				for _, key := range []string{"1.n", "2.n"} {
					if err := s.Set(key, 7); err != nil {
						t.Fatal(err)
					}
				}
				until := make(chan struct{})
				faulty.Inject(vfs.Rule{Ops: vfs.OpWrite, Every: 1, Until: until})
				uncertain := func(err error) bool { return errors.As(err, new(*UncertainError)) && errors.Is(err, persist.ErrHang) }
				const bound = 2500 * time.Millisecond
				go func() {
					if _, err := s.Incr("2.n", 1); err != nil {
						t.Errorf("the change whose write hung and then ended: %v", err)
					}
				}()
				synctest.Wait()
				began := time.Now()
				go func() {
					if _, err := s.Incr("1.n", 1); !uncertain(err) || time.Since(began) > bound {
						t.Errorf("a change made beside: %v after %v", err, time.Since(began))
					}
				}()
				go func() {
					if v, _, err := s.Get("2.n"); !uncertain(err) || time.Since(began) > bound {
						t.Errorf("the changed post: %d, %v after %v", v, err, time.Since(began))
					}
				}()
				time.Sleep(time.Second)
				now := time.Now()
				if _, found, err := s.Get("3.n"); err != nil || found || time.Since(now) > 0 {
					t.Errorf("another post, stalled: %v, %v after %v", found, err, time.Since(now))
				}
				time.Sleep(bound)
				now = time.Now()
				if _, found, err := s.Get("3.n"); err != nil || found {
					t.Errorf("another post, hanging: %v, %v", found, err)
				}
				if v, _, err := s.Get("2.n"); !uncertain(err) {
					t.Errorf("the changed post, hanging: %d, %v", v, err)
				}
				if _, err := s.Incr("3.n", 1); !errors.Is(err, ErrNotReady) || errors.As(err, new(*UncertainError)) {
					t.Errorf("a new change: %v", err)
				}
				if took := time.Since(now); took > 0 {
					t.Errorf("hanging: %v for what should not wait", took)
				}
				faulty.Clear()
				close(until)
				time.Sleep(2 * time.Second)
				if v, _, err := s.Get("2.n"); err != nil || v != 8 {
					t.Errorf("well: %d, %v", v, err)
				}
				if _, err := s.Incr("3.n", 1); err != nil {
					t.Errorf("well: %v", err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
