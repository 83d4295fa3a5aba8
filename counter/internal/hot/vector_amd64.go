package hot

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// pickBuckets picks the items of buckets, up to filterBuckets of them: first is where the first of them begins, bucket its number. It looks at
// the items with a bit in masks.hits, and leaves the bits of those that it picked there. words has room for all of them, and for a bucket more.
// unfit is not 0 if a key does not fit a word. REQUIRES hasVectors.
//
//go:noescape
func pickBuckets(v *vectors, first unsafe.Pointer, bucket uint64, buckets int, masks *bucketMasks, words *uint64) (picked int, unfit uint64)

// unpackRows unpacks narrow items to rows. REQUIRES hasVectors, and rows of rowWords words at most.
//
//go:noescape
func unpackRows(u *unpackers, rows *uint64, words []uint64)

// filterVector removes the bits of items in buckets from hits, a byte for each bucket, that do not meet a condition, or are not there. first is
// where the first bucket begins. REQUIRES hasVectors.
//
//go:noescape
func filterVector(f *filterVectors, first unsafe.Pointer, buckets int, hits *uint8)

// hasVectors tells whether the processor has the instructions of the functions above: those of servers from 2017 (Intel) and 2022 (AMD) on have.
func hasVectors() bool {
	return cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasPOPCNT
}
