package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "../../bin", "folder of counterd and counterctl")
	flag.IntVar(&o.nodes, "nodes", 3, "nodes of each system")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds of each scenario and system")
	flag.IntVar(&o.writers, "writers", 32, "clients that write")
	flag.DurationVar(&o.length, "load", 10*time.Second, "length of the load before the fault")
	flag.Uint64Var(&o.seed, "seed", 1, "decides which node and which bit")
	flag.StringVar(&o.only, "only", "", "part of a name of a system or scenario")
	flag.StringVar(&o.keep, "keep", "", "folder for the logs of rounds that lost something or were not whole again in time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "survival:", err)
		os.Exit(1)
	}
}

// maxWriters bounds --writers.
const maxWriters = 256

type options struct {
	bin                    string
	nodes, rounds, writers int
	length                 time.Duration
	seed                   uint64
	only                   string
	keep                   string
}

func run(ctx context.Context, o options) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("got user id %d, want 0: the scenarios mount file systems", os.Geteuid())
	}
	if o.writers < 1 || o.writers > maxWriters {
		return fmt.Errorf("got %d writers, want 1 to %d", o.writers, maxWriters)
	}
	temp, err := os.MkdirTemp("", "survival-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	nats := filepath.Join(temp, "nats-server")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", nats, "github.com/nats-io/nats-server/v2").CombinedOutput(); err != nil {
		return fmt.Errorf("go build nats-server: %w: %s", err, out)
	}
	fmt.Printf("%d nodes, %d writers, %s of load before the fault, seed %d\n\n", o.nodes, o.writers, o.length, o.seed)
	fmt.Println("| system | scenario | acknowledged | lost | wrong | whole again | what happened |\n|---|---|---|---|---|---|---|")
	systems := []func(string, []*Disk, *Disk) System{
		func(logs string, d []*Disk, shared *Disk) System {
			return newCounterd(o.bin, "everysec", logs, d, shared)
		},
		func(logs string, d []*Disk, shared *Disk) System {
			return newCounterd(o.bin, "always", logs, d, shared)
		},
		func(logs string, d []*Disk, _ *Disk) System { return newJetStream(nats, "2m", logs, d) },
		func(logs string, d []*Disk, _ *Disk) System { return newJetStream(nats, "always", logs, d) },
	}
	var all summary
	for _, scenario := range []string{"flip", "power"} {
		for n := range o.rounds {
			for _, system := range systems {
				if err := o.round(ctx, temp, scenario, n, system, &all); err != nil {
					return err
				}
			}
		}
	}
	fmt.Println()
	all.print(os.Stdout)
	return nil
}

// round runs one round on disks of its own, prints its line, and adds it to all.
func (o options) round(ctx context.Context, temp, scenario string, n int, system func(string, []*Disk, *Disk) System, all *summary) (err error) {
	dir, err := os.MkdirTemp(temp, "round-")
	if err != nil {
		return err
	}
	var disks []*Disk
	defer func() {
		for _, d := range disks {
			d.Remove()
		}
	}()
	for i := range o.nodes + 1 {
		d, err := NewDisk(dir, fmt.Sprintf("disk-%d", i))
		if err != nil {
			return err
		}
		disks = append(disks, d)
	}
	r := &round{disks: disks[:o.nodes], shared: disks[o.nodes], rng: rand.New(rand.NewPCG(o.seed, uint64(n))), writers: o.writers, length: o.length}
	r.system = system(dir, r.disks, r.shared)
	if !strings.Contains(scenario+" "+r.system.Name(), o.only) {
		return nil
	}
	fault := r.flip
	if scenario == "power" {
		fault = r.power
	}
	if err := r.run(ctx, fault); err != nil {
		logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
		for _, path := range logs {
			if content, err := os.ReadFile(path); err == nil {
				fmt.Fprintf(os.Stderr, "== %s\n%s\n", filepath.Base(path), content[max(0, len(content)-2000):])
			}
		}
		return fmt.Errorf("%s, %s: %w", r.system.Name(), scenario, err)
	}
	res := r.result
	all.add(&res)
	if o.keep != "" && (res.Lost > 0 || res.Wrong > 0 || res.Recover >= healthyIn) {
		if err := keepLogs(dir, filepath.Join(o.keep, filepath.Base(dir)), res); err != nil {
			return err
		}
	}
	fmt.Printf("| %s | %s | %d | %d | %d | %.1f s | %s |\n", res.System, res.Scenario, res.Acknowledged, res.Lost, res.Wrong, res.Recover.Seconds(), strings.Join(res.Said, "; "))
	return nil
}

// keepLogs copies the logs of a round.
func keepLogs(from, to string, res Result) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	logs, err := filepath.Glob(filepath.Join(from, "*.log"))
	if err != nil {
		return err
	}
	for _, path := range logs {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(path)), content, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(to, "result.txt"), fmt.Appendf(nil, "%+v\n", res), 0o644)
}
