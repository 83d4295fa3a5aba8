//go:build !amd64

package query

func hasVectors() bool { return false }

func sumVector(*uint32, int) { panic("query: no vector instructions are used for this processor") }

func exchangeVector(*uint64, int, uint64) {
	panic("query: no vector instructions are used for this processor")
}

func disorderVector(*uint64, int, uint64) int {
	panic("query: no vector instructions are used for this processor")
}
