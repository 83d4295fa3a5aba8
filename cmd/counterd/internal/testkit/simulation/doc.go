// Package simulation plays a whole cluster in one process, from one seed: the real servers on disks, a network and an etcd that
// are simulated, in the virtual time of testing/synctest. It needs the build tag noepoll on Linux, as a simulated connection has
// no file descriptor.
//
//	make proof-sim SEEDS=1000                many runs, each from the next seed
//	make proof-sim SEED=42                   one run again, with its story
//	make proof-sim SEED=42 SHRINK=1          the fewest faults that still make it fail
//
// # What is real
//
// Each node is a server.Server: connections, commands, the store, its log and snapshots, replication, roles, the cluster's agent,
// moves of groups, and links between shards. It reaches its machine by role.Machine alone: a network (Network) and a file system
// (vfs.Faulty over vfs.Sim). Etcd is package registrytest, which shares its conformance tests with the real one.
//
// # A run
//
// A seed draws the configuration (Config), faults (nemesis) and what clients do (client). At the end all faults are healed. Then
// the cluster must become whole within ten minutes, and these invariants hold:
//
//   - No acknowledged increment is lost, and none counts twice; numbered increments count once however often they were sent.
//   - The history of each key is linearizable (History.Check).
//   - The nodes of a shard hold the same posts.
//   - No command is answered by an error that says nothing of its class.
//
// # What is deterministic
//
// The configuration, the faults and their moments, and the draws of each client depend on the seed alone. So do the random bytes
// of the servers (testing/cryptotest). The order of goroutines that are ready at one virtual moment, the choice of a select with
// several ready cases, and the order of a map's keys are the Go runtime's: a run with the same seed nearly always takes the same
// course at first, and may take another one later. A failure may need several runs of its seed (-again).
//
// # What is not simulated
//
// Disks that hang while virtual time goes on: a goroutine that waits for a sync.Mutex stops the clock of a bubble until the holder
// goes on, and a hung disk lets the holder wait. The epoll loops of package front, TLS, and the monotonic clock, which every node
// shares.
//
// # Files
//
//	run.go                       one run: begin, faults, heal, compare
//	standalone.go                a primary and replicas without etcd
//	config.go                    what a seed draws
//	machine.go                   a machine and the processes on it
//	nemesis.go                   faults, one after another
//	nemesis_machines.go          what they do to machines, links, disks, etcd and the map
//	client.go history.go         clients, and what they were answered
//	network.go half.go conn.go   hosts, links, connections
//	dice.go story.go             random numbers; what happened
package simulation
