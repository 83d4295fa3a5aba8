package main

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/counterbench/internal/plan"
)

var clusterCommand = command{
	Name:    "cluster",
	Summary: "what a cluster takes, on paper: etcd, failures, memory, machines, money",
	Details: `Computes and simulates a cluster before there are machines for it: how large its map is, what etcd has to write at rest and when
a rack goes dark, how long the copies of a dead machine take to be made again, and memory, disks, machines and money beside
Redis Cluster. It talks to no server. What is assumed is printed behind it.

  counterbench cluster --nodes 1000 --posts 1e11 --increments 1e7
  counterbench cluster --nodes 12 --copies 3 --racks 3 --posts 2e9 --increments 200000 --pages 50000 --hot 0.3`,
	Setup: func(flags *pflag.FlagSet) action {
		p := plan.Default()
		flags.IntVar(&p.Nodes, "nodes", p.Nodes, "server processes")
		flags.IntVar(&p.Copies, "copies", p.Copies, "of each shard, the primary's counted")
		flags.IntVar(&p.Racks, "racks", p.Racks, "or zones that fail as one")
		flags.Uint64Var(&p.Seed, "seed", p.Seed, "of the simulation")
		flags.Float64Var(&p.Posts, "posts", p.Posts, "in all")
		flags.Float64Var(&p.Hot, "hot", p.Hot, "part of the posts that is in memory")
		flags.Float64Var(&p.Increments, "increments", p.Increments, "a second, each a command that its client waits for")
		flags.Float64Var(&p.Pages, "pages", p.Pages, "reads of 20 posts a second")
		flags.Float64Var(&p.IncrCPU, "incr-cpu", p.IncrCPU, "`seconds` of a processor an increment; 0.5e-6 where they come 64 deep")
		flags.DurationVar(&p.NodeTimeout, "node-timeout", p.NodeTimeout, "cluster-node-timeout")
		flags.Float64Var(&p.Cores, "cores", p.Cores, "of a machine")
		flags.Float64Var(&p.RAM, "memory", p.RAM, "of a machine, `bytes`")
		flags.Float64Var(&p.Disk, "disk", p.Disk, "of a machine, `bytes`")
		flags.Float64Var(&p.DiskRate, "disk-rate", p.DiskRate, "of a machine, `bytes` a second")
		flags.Float64Var(&p.NetRate, "network-rate", p.NetRate, "of a machine, `bytes` a second each way")
		flags.Float64Var(&p.CopyShare, "copy-share", p.CopyShare, "part of disks and network that copies may take")
		flags.Float64Var(&p.Busy, "busy", p.Busy, "part of the processors that may be in use")
		flags.Float64Var(&p.Price, "price", p.Price, "of a machine, `USD` an hour")
		return func(_ context.Context, out output, args []string) error {
			if len(args) != 0 {
				return misuse("takes no arguments, only flags")
			}
			if err := p.Validate(); err != nil {
				return misuse("%v", err)
			}
			return p.Report(out.Stdout)
		}
	},
}
