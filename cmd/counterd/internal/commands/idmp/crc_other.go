//go:build !amd64

package idmp

import "hash/crc32"

// update is crc32.Update with the Castagnoli table.
func update(state uint32, b []byte) uint32 { return crc32.Update(state, castagnoli, b) }
