package config

import (
	"errors"
	"strconv"
	"strings"

	"github.com/counterd/counterd/cmd/internal/bytesize"
)

// ClientsLimit is redis.conf's maxmemory-clients: the limit of the memory of all connections together, in bytes or as
// a part of maxmemory ("5%"). Zero is no limit, and so is a part of a maxmemory of zero.
type ClientsLimit struct {
	Bytes   uint64
	Percent int // of maxmemory; 0: Bytes counts
}

// DefaultClientsLimit is half of the memory that 10,000 subscribers could hold, and room for 16 connections that send
// commands of 16 MiB.
const DefaultClientsLimit = 256 << 20

var errClientsLimit = errors.New("argument must be a percentage between 0% and 100%, or a number of bytes")

// String is the form of CONFIG GET.
func (l *ClientsLimit) String() string {
	if l.Percent > 0 {
		return strconv.Itoa(l.Percent) + "%"
	}
	return strconv.FormatUint(l.Bytes, 10)
}

// Type is for the help of flags.
func (l *ClientsLimit) Type() string { return "bytes|percent%" }

// Set reads bytes, as 1048576 or 64mb, or a percentage.
func (l *ClientsLimit) Set(text string) error {
	if digits, ok := strings.CutSuffix(text, "%"); ok {
		n, err := strconv.Atoi(digits)
		if err != nil || n < 0 || n > 100 {
			return errClientsLimit
		}
		*l = ClientsLimit{Percent: n}
		return nil
	}
	n, err := bytesize.Parse(text)
	if err != nil {
		return errClientsLimit
	}
	*l = ClientsLimit{Bytes: n}
	return nil
}

// Of is the limit in force in bytes, for that maxmemory; 0: none.
func (l *ClientsLimit) Of(maxMemory uint64) int64 {
	if l.Percent > 0 {
		return int64(maxMemory / 100 * uint64(l.Percent))
	}
	return int64(l.Bytes)
}
