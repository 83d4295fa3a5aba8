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
//   - A page of posts that each change set changes in all its counters is never seen half, on any node (pages.go).
//   - The nodes of a shard hold the same posts.
//   - A derived column whose window holds the whole run has as much as its source, in each answer and on each node (windows.go).
//   - In nearly every second run, each change of the feed has the values before it, which are those that the consumer knows (windows.go, package feedview).
//   - The additions of the last seconds are in a short window, and leave it in time, where all clocks are right; a sum with a short half-life
//     has the rest of its additions.
//   - The derived columns of a page are those of its additions since it was deleted last, the same of all of its posts (pages.go).
//   - A top list has the posts with the largest values, on each node and at each moment; an answer of COUNTER.TOP reads its
//     posts, and the posts that are missing where it has fewer than it was asked for (toplists.go).
//   - Each addition to a column that a collector drains is in an answer or in the column, once (additions.go).
//   - Each post of an updater has each of its numbered updates once, and an answer counts all posts (updates.go).
//   - A post that is not too old is there, and no node keeps a post that is too old, wherever a clock stands (aging.go).
//   - A feed gives each change once, in the order of its post, and no change that is taken back (package feedview).
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
// The epoll loops of package front, TLS, and the monotonic clock, which every node shares. The code of older versions: their nodes
// run this code and speak as they did (upgrade.go). Disks hang only in a binary with the
// build tag hangs, which make gives it: without it, a goroutine that waits for a lock stops the virtual clock if the holder hangs.
//
// # Files
//
//	run.go                       one run: begin, faults, heal, compare
//	standalone.go                a primary and replicas without etcd
//	config.go                    random numbers, and what a seed draws
//	machine.go                   a machine, its wall clock, and the processes on it
//	nemesis.go                   faults, one after another, and the map of the cluster
//	nemesis_machines.go          what they do to machines, links, disks, etcd and the map
//	scenes.go                    faults in an order that single ones rarely come in
//	scenes_disks.go              a disk that takes nothing, and losses of the last copy in sync, and of its power
//	sentinel.go                  Sentinel, and changes that WAIT confirms
//	upgrade.go                   nodes of older versions, and a directory of one
//	leaks.go                     files that stay open
//	search.go                    histories with flushes: an order of all attempts
//	decay.go                     files of a node that decay
//	locks.go nolocks.go          a clock that goes on while disks hang
//	client.go history.go         clients with their answers; FLUSHALL
//	windows.go                   derived columns beside the posts
//	toplists.go                  top lists of columns, compared with the posts
//	aging.go                     posts that the primary drops by age
//	updates.go                   numbered updates of many posts, made by all shards
//	additions.go                 additions by all commands that add, pipelines of them, and a column that is drained
//	pages.go client_pages.go     posts that are changed together, by MULTI and by commands of many keys, and columns derived from them
//	network.go conn.go           hosts, links, connections
//	feed.go                      a consumer of the feed of changes
//	scenes_clients.go            faults beside producers that wait too long, or come and go, and consumers of the feed that fall behind
//	story.go                     what happened
package simulation
