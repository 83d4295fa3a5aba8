// Command survival measures what damage and power failure cost a replicated system: counterd's cluster, and NATS JetStream beside it. The
// two scenarios are those of Jepsen's report on NATS 2.12.1 (https://jepsen.io/analyses/nats-2.12.1):
//
//   - flip: one node is killed, one bit of its largest data file is flipped, and the node starts again. Then each other node is killed and
//     started, one after the other.
//   - power: all nodes (and etcd) lose power at the same moment.
//
// Meanwhile clients write records with unique ids. Afterwards all records are read. A record that was acknowledged and is not there is lost;
// one that is there with another value is wrong.
//
// # Power failure of a real file system
//
// Each node has an ext4 of its own on a loop device. FS_IOC_SHUTDOWN with NOLOGFLUSH (disk.go) stops the file system without writing
// anything: neither dirty pages nor the journal. Then the processes are killed, and the file system is mounted again. It has what was
// synced, as after a power failure. This needs root.
//
// The module is separate, so that counterd itself does not depend on NATS.
package main
