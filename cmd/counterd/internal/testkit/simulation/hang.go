package simulation

import (
	"time"

	"github.com/counterd/counterd/persist/vfs"
)

// A disk that hangs answers nothing for a while, and then goes on: no call fails. Under a slow disk, each call takes long. Goroutines
// that wait meanwhile for a lock would stop the virtual clock if the holder hangs; locks.go makes the clock go on.

// hang has a machine's disk hang, or be slow, for a while. In a hang, some kinds of calls hang for it, or all.
func (n *nemesis) hang(d *Dice, m *Machine) {
	disk := m.Disk()
	if disk == nil || !n.run.Config.DiskHangs || !lockWaitsAreIdle {
		return
	}
	ops := Pick(d, []vfs.Op{vfs.OpSync, vfs.OpWrite, vfs.OpRead, vfs.OpMutating, vfs.OpAll})
	lasts := d.Between(0, Pick(d, []time.Duration{time.Second, 5 * time.Second, 40 * time.Second}))
	if d.Chance(400) {
		rule := vfs.Rule{Ops: ops, Every: Pick(d, []int{1, 3, 10}), Delay: d.Between(time.Millisecond, Pick(d, []time.Duration{20 * time.Millisecond, time.Second}))}
		n.say("the disk of %s is slow for %s: %+v", m.name, lasts, rule)
		disk.Inject(rule)
		time.AfterFunc(lasts, disk.Clear)
		return
	}
	n.say("the disk of %s hangs for %s: %s", m.name, lasts, ops)
	until := make(chan struct{})
	disk.Inject(vfs.Rule{Ops: ops, Every: 1, Until: until})
	time.AfterFunc(lasts, func() {
		disk.Clear()
		close(until)
	})
}
