package query

import "golang.org/x/sys/cpu"

// hasVectors tells whether the processor has the instructions of the functions below.
func hasVectors() bool { return cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ }

// sumVector adds to each number all before it. n is rounded up to a multiple of 16.
//
//go:noescape
func sumVector(numbers *uint32, n int)

// exchangeVector exchanges two words, the first and the second, the third and the fourth and so on, where the key of the former is larger. low
// has the bits that are no key, n is a multiple of 8.
//
//go:noescape
func exchangeVector(words *uint64, n int, low uint64)

// disorderVector returns the place of the first word, of n, whose key is larger than that of the word behind it, or n: there are n+1 words, and n is
// a multiple of 8.
//
//go:noescape
func disorderVector(words *uint64, n int, low uint64) (at int)
