package report

import (
	"math"
	"slices"
)

// sizing answers how many machines a load takes, which is the question behind all measurements. The page recomputes it for other
// loads and machines by the same rule:
//
//	machines = the larger of  operations / (operations of a CPU second * CPUs * busyPart)
//	                     and  posts * bytes a post / (memory * fullPart)
type sizing struct {
	Workload string // whose operations are counted
	Demand   demand
	Servers  []sizedServer
	Memory   bool // bytes a post are known well enough
	Least    string
}

// demand is the load that the machines must carry, and the capacity of one machine.
type demand struct {
	Ops, Posts float64
	CPUs, GiB  float64
}

type sizedServer struct {
	Label, Name string
	PerCPU      float64 // operations of a second of one processor
	PerPost     float64 // bytes; 0: not known well enough
	Machines    string
	Limit       string // what decides
}

const (
	busyPart = 0.5  // of the processors: the other half is for bursts, snapshots, and a machine that fails
	fullPart = 0.75 // of the memory
	// leastSized is how many posts must have been loaded for bytes a post to hold for more: with 300,000 they came out five
	// times as many as with 100 million, as much of the memory of a process does not grow with its posts.
	leastSized = 10_000_000
)

// exampleDemand is the demand that the page shows first.
var exampleDemand = demand{Ops: 1e6, Posts: 1e9, CPUs: 16, GiB: 64}

// newSizing returns the sizing by the workload that is most like a site, nil where none was measured at full speed.
func (r *Report) newSizing() *sizing {
	var phase *Phase
	for _, name := range []string{"mixed", "timeline", "get", "incr"} {
		i := slices.IndexFunc(r.Phases, func(p Phase) bool { return p.Workload == name && p.Rate == 0 })
		if i >= 0 {
			phase = &r.Phases[i]
			break
		}
	}
	if phase == nil {
		return nil
	}
	s := &sizing{Workload: phase.Workload, Demand: exampleDemand, Memory: true, Least: Int(leastSized)}
	for i, result := range phase.Results {
		cpu := result.Over(Slice.ServerCPU).Median
		if cpu <= 0 {
			return nil
		}
		server := sizedServer{Label: r.label(i), Name: r.Servers[i].name(), PerCPU: round(1e6 / cpu)}
		if m := r.Servers[i].Memory; m != nil && m.Posts >= leastSized && m.Bytes > 0 && !m.Flushed {
			server.PerPost = round(m.PerPost()*100) / 100
		} else {
			s.Memory = false
		}
		s.Servers = append(s.Servers, server)
	}
	for i := range s.Servers {
		if !s.Memory {
			s.Servers[i].PerPost = 0
		}
		s.Servers[i].size(s.Demand)
	}
	return s
}

// size computes how many machines carry a demand.
func (s *sizedServer) size(d demand) {
	cpu := d.Ops / (s.PerCPU * d.CPUs * busyPart)
	memory := d.Posts * s.PerPost / (d.GiB * (1 << 30) * fullPart)
	s.Limit = "processors"
	if memory > cpu {
		s.Limit = "memory"
	}
	s.Machines = Int(int64(max(1, math.Ceil(max(cpu, memory)))))
}

// Carried is PerCPU for people.
func (s sizedServer) Carried() string { return Rate(s.PerCPU) }

// Busy and Full are the parts, for the page.
func (*sizing) Busy() float64 { return busyPart }
func (*sizing) Full() float64 { return fullPart }
