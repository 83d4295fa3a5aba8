package simulation

import (
	"runtime"
	"time"
)

// settled is how long the goroutines of a process that was killed may work on until they have ended. Replication gives up a link
// after a minute.
const settled = 2 * time.Minute

// descriptors notes a fault if a process that has ended did not close a file, or used one that it had closed.
func (p *process) descriptors() {
	time.Sleep(settled)
	for i, open := range p.disk.Leaks() {
		if i == 3 {
			break
		}
		p.m.run.Fault("%s: a process that has ended has not closed: %s", p.m.name, open)
	}
	for _, text := range p.disk.Misuse() {
		p.m.run.Fault("%s: a process has used a file wrongly: %s", p.m.name, text)
	}
}

// openFiles notes a fault if a node of a healed system has more open files than files. A node has each cold file and each segment of
// the log open once, or twice while it sends them.
func openFiles(r *Run) {
	for _, m := range r.Machines {
		m.mu.Lock()
		disk := m.disk
		m.mu.Unlock()
		open, files := disk.Leaks(), disk.Files("data")
		if most := 2*len(files) + 16; len(open) > most {
			r.Fault("%s has %d files open, of %d; want %d at most: %v", m.name, len(open), len(files), most, open)
		}
	}
}

// maxGrowth is how much the heap of a quiet run may grow from a third of its time to its end: the story, the history, and the memory of
// nodes that were down. A run of 2.6 hours grew by 5 MiB.
const maxGrowth = 16 << 20

// heap is the memory in use, in bytes.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// weigh notes how much memory a quiet run uses after a third of its time.
func (r *Run) weigh() {
	if r.Config.Quiet {
		r.lives.Go(func() {
			time.Sleep(r.Config.Lasts / 3)
			r.heap.Store(heap())
		})
	}
}

// grown notes a fault if a quiet run uses more and more memory.
func (r *Run) grown() {
	if first := r.heap.Load(); r.Config.Quiet && first > 0 {
		now := heap()
		r.Story.Say("", "the heap has %d KiB, and had %d KiB", now>>10, first>>10)
		if now-first > maxGrowth {
			r.Fault("the heap grew from %d to %d bytes in %s", first, now, r.Config.Lasts*2/3)
		}
	}
}
