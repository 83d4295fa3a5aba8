package config

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/counterd/counterd/cmd/internal/backup/place"
)

// Replication is the part of the configuration about primaries and replicas.
type Replication struct {
	ReplicaOf         string // "host port" of the primary, empty = this is one
	HealFrom          string // place with backups of this store, to take where the data directory is damaged; empty = none
	MasterAuth        string // password for the primary
	MasterUser        string
	ReplicaPriority   int    // Sentinel prefers lower; 0 = never a primary
	AnnounceIP        string // that the primary and Sentinel are told
	AnnouncePort      int    // 0 = port
	Announced         bool   // Sentinel tells clients of this replica
	ServeStale        bool   // a replica without its primary answers reads
	MinReplicas       int    // that must follow for changes to be taken
	MinReplicasMaxLag int    // seconds
	ReplTimeout       int    // seconds of silence until a link is cut
	CompareCPU        int    // microseconds of processor time a second, to compare posts with other nodes; 0: they are not
}

func defaultReplication() Replication {
	return Replication{ReplicaPriority: 100, Announced: true, ServeStale: true, MinReplicasMaxLag: 10, ReplTimeout: 60, CompareCPU: 5000}
}

func (r *Replication) validate(errs *[]error) {
	if _, _, err := ParsePrimary(r.ReplicaOf); err != nil {
		*errs = append(*errs, err)
	}
	if err := place.CheckRead(r.HealFrom); err != nil {
		*errs = append(*errs, fmt.Errorf("heal-from: %w", err))
	}
	if r.AnnounceIP != "" && strings.ContainsAny(r.AnnounceIP, " \r\n,=") {
		*errs = append(*errs, fmt.Errorf("replica-announce-ip: got %q, want an address or a host's name", r.AnnounceIP))
	}
}

// ParsePrimary reads "host port", "host:port", or nothing: then, and for "no one", host is empty.
func ParsePrimary(s string) (host string, port int, err error) {
	fields := strings.Fields(s)
	switch len(fields) {
	case 0:
		return "", 0, nil
	case 1:
		host, port, err := net.SplitHostPort(s)
		if err != nil {
			return "", 0, fmt.Errorf("replicaof: got %q, want host and port", s)
		}
		fields = []string{host, port}
	}
	if len(fields) == 2 && strings.EqualFold(fields[0], "no") && strings.EqualFold(fields[1], "one") {
		return "", 0, nil
	}
	port, err = strconv.Atoi(fields[1])
	if len(fields) != 2 || err != nil || port < 1 || port > 65535 {
		return "", 0, fmt.Errorf("replicaof: got %q, want host and port", s)
	}
	return fields[0], port, nil
}
