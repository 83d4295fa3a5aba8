//go:build !amd64

package hot

import "unsafe"

func pickBuckets(*vectors, unsafe.Pointer, uint64, int, *bucketMasks, *uint64) (int, uint64) {
	panic("hot: no vector instructions are used for this processor")
}

func unpackRows(*unpackers, *uint64, []uint64) {
	panic("hot: no vector instructions are used for this processor")
}

func filterVector(*filterVectors, unsafe.Pointer, int, *uint8) {
	panic("hot: no vector instructions are used for this processor")
}

func hasVectors() bool { return false }
