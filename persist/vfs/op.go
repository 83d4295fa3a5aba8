package vfs

import "strings"

// Op is a set of operation kinds: one bit each, so that a Rule can name several.
type Op uint32

// The operation kinds, named in errors and traces by their lower-case name.
const (
	OpCreate Op = 1 << iota
	OpOpen
	OpOpenRW
	OpRead
	OpWrite
	OpSync
	OpTruncate
	OpPreallocate
	OpSize
	OpMap     // the call of File.Map
	OpMapRead // a touch of the mapped bytes
	OpClose
	OpRename
	OpRemove
	OpMkdir
	OpSyncDir
	OpList
	OpStat
	OpLock
	opEnd
)

const (
	// OpAll is every call that a Faulty can fail: all kinds but OpMapRead, which is no call.
	OpAll = (opEnd - 1) &^ OpMapRead

	// OpMutating are the kinds that Sim numbers.
	OpMutating = OpCreate | OpWrite | OpSync | OpTruncate | OpPreallocate | OpRename | OpRemove | OpMkdir | OpSyncDir
)

var opNames = [...]string{"create", "open", "openrw", "read", "write", "sync", "truncate", "preallocate", "size", "map",
	"mapread", "close", "rename", "remove", "mkdir", "syncdir", "list", "stat", "lock"}

// String returns the names of the kinds, joined by "|".
func (o Op) String() string {
	var names []string
	for i, name := range opNames {
		if o&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "|")
}
