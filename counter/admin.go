package counter

import "github.com/counterd/counterd/persist/vfs"

// Admin is a store's side for the operator of a server: metrics of its parts, options that change while it is open, tiers by
// hand, digests and archives. Batch has the methods about blocks: Blocks, BlockOf, Tiers. A program that embeds a store does
// not need it.
//
// All methods are safe for concurrent use. Two metrics need not be of the same moment; after Close they mean nothing.
type Admin struct{ s *Store }

// Admin is the store's side for the operator of a server.
func (s *Store) Admin() Admin { return Admin{s} }

// FS is the file system of the data directory.
func (a Admin) FS() vfs.FS { return a.s.opts.FS }
