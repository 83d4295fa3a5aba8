package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/atomicfile"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/schema"
)

// backupFormat is the format that is written, and the only one there is.
const backupFormat = 1

const (
	backupManifest = "manifest.json"
	manifestMax    = 64 << 20
)

// clusterBackup is the content of a backup's manifest:
//
//	{"backup": {...}, "crc32c": "0123abcd"}     of the backup's JSON without white space between its words
//
// Invariant: the groups of its shards are all groups, each once.
type clusterBackup struct {
	Format   int           `json:"format"`
	Cluster  string        `json:"cluster"`  // its id
	Name     string        `json:"name"`     // of the cluster
	From     time.Time     `json:"from"`     // all archives were begun from then
	To       time.Time     `json:"to"`       // to then
	Revision int64         `json:"revision"` // of etcd, at which the owners were so
	Schema   string        `json:"schema"`   // package schema's durable form; empty: there was none
	Shards   []backupShard `json:"shards"`
}

// backupShard is an archive.
type backupShard struct {
	ID     topology.ShardID `json:"id"`
	Epoch  uint64           `json:"epoch"`
	ReplID string           `json:"replid"`
	Offset uint64           `json:"offset"` // of its log, at which it ends
	Groups slot.Set         `json:"groups"` // that count; the archive's data of other groups do not count
	File   string           `json:"file"`
	Bytes  int64            `json:"bytes"`
	CRC    string           `json:"crc32c"`
}

func archiveName(id topology.ShardID) string { return fmt.Sprintf("shard-%d.archive", id) }

type signedBackup struct {
	Backup json.RawMessage `json:"backup"`
	CRC    string          `json:"crc32c"`
}

// write puts the manifest into a directory.
func (b *clusterBackup) write(dir string) error {
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return atomicfile.Replace(filepath.Join(dir, backupManifest), 0o640, func(w io.Writer) error {
		return printJSON(w, signedBackup{text, jsonSum(text)})
	})
}

func jsonSum(compact []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(compact, castagnoli)) }

// readBackup reads the manifest of a directory.
func readBackup(dir string) (*clusterBackup, error) {
	path := filepath.Join(dir, backupManifest)
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, manifestMax))
	if err != nil {
		return nil, err
	}
	b, err := parseBackup(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// parseBackup reads a manifest, and checks it.
func parseBackup(text []byte) (*clusterBackup, error) {
	var signed signedBackup
	if err := json.Unmarshal(text, &signed); err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, signed.Backup); err != nil {
		return nil, fmt.Errorf("it has no backup: %w", err)
	}
	var b clusterBackup
	if err := json.Unmarshal(compact.Bytes(), &b); err != nil {
		return nil, err
	}
	if b.Format != backupFormat {
		return nil, fmt.Errorf("got format %d, want %d", b.Format, backupFormat)
	}
	if got := jsonSum(compact.Bytes()); got != signed.CRC {
		return nil, fmt.Errorf("got checksum %s, want %.20q: it is damaged", got, signed.CRC)
	}
	if _, err := durableSchema(b.Schema); err != nil {
		return nil, fmt.Errorf("its schema: %w", err)
	}
	var all slot.Set
	for _, shard := range b.Shards {
		if twice := all.Both(shard.Groups); !twice.Empty() {
			return nil, fmt.Errorf("it has the groups %s twice", twice)
		}
		all = all.Union(shard.Groups)
		if shard.File != archiveName(shard.ID) || shard.Bytes < 0 {
			return nil, fmt.Errorf("shard %d has the file %.100q of %d bytes, want %s", shard.ID, shard.File, shard.Bytes, archiveName(shard.ID))
		}
	}
	if missing := slot.AllGroups().Minus(all); !missing.Empty() {
		return nil, fmt.Errorf("it lacks the groups %s", missing)
	}
	return &b, nil
}

// schema is the cluster's, which was checked.
func (b *clusterBackup) schema() *schema.Schema {
	sch, err := durableSchema(b.Schema)
	if err != nil {
		panic(err)
	}
	return sch
}
