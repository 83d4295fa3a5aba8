package plan

import "math"

// Resources is what a kind of server takes for all posts, with all copies.
type Resources struct {
	RAM, Disk, Cores float64
	Machines         int    // the largest of what each of the three needs
	Limit            string // which of them that is
	Month            float64
}

const hoursPerMonth = 730

// machines says how many machines it takes.
func (p *Plan) machines(ram, disk, cores float64) Resources {
	r := Resources{RAM: ram, Disk: disk, Cores: cores}
	for _, need := range []struct {
		name string
		n    float64
	}{{"memory", ram / (p.RAM * usable)}, {"disks", disk / (p.Disk * usable)}, {"processors", cores / (p.Cores * p.Busy)}} {
		if n := int(math.Ceil(need.n)); n > r.Machines {
			r.Machines, r.Limit = n, need.name
		}
	}
	if least := p.Copies; r.Machines < least {
		r.Machines, r.Limit = least, "copies"
	}
	r.Month = float64(r.Machines) * p.Price * hoursPerMonth
	return r
}

// Counterd is what counterd takes.
func (p *Plan) Counterd() Resources {
	copies := float64(p.Copies)
	hot := p.Posts * p.Hot * p.HotBytes
	ram := copies*hot*(1+p.Overlays) + float64(p.Nodes)*p.ProcessRAM
	return p.machines(ram, copies*p.dataBytes(), p.cpu(p.IncrCPU*(1+p.QuorumCPU*bool01(p.Copies > 1)), p.ApplyCPU, p.PageCPU))
}

// dataBytes is what one copy of everything takes on disk: cold files, and a tenth more while some are written anew; two
// snapshots of what is in memory; the log behind the older of them, as one is made when the log has grown by the size of
// the last; what is retained.
func (p *Plan) dataBytes() float64 {
	hot := p.Posts * p.Hot * p.HotBytes
	return p.Posts*(1-p.Hot)*p.ColdBytes*1.1 + 2*hot + 2*hot + float64(p.Shards())*p.RetainBytes
}

func (p *Plan) cpu(incr, apply, page float64) float64 {
	return p.Increments*(incr+apply*float64(p.Copies-1)) + p.Pages*page
}

func bool01(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Redis is what Redis Cluster takes with its smallest data model and with its plainest: everything in memory, half as
// much again while a snapshot forks, and on disk two RDBs (the old one while the new is written) and an AOF that grows to
// twice its base.
func (p *Plan) Redis() (low, high Resources) {
	side := func(bytes, disk float64) Resources {
		copies := float64(p.Copies)
		// An increment is applied by a replica as it was by the primary, without a client's read and write.
		return p.machines(copies*p.Posts*bytes*(1+p.RedisFork), copies*p.Posts*disk*4, p.cpu(p.RedisIncrCPU, 1e-6, 29e-6))
	}
	return side(p.RedisBytesLow, p.RedisDiskLow), side(p.RedisBytesHigh, p.RedisDiskHigh)
}
