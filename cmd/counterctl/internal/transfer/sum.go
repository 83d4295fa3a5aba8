package transfer

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/bits"
)

// Sum is how many values there are of a column, and their sum.
type Sum struct {
	Values  uint64 // all
	NonZero uint64 // those that are not 0
	hi, lo  uint64 // of the sum: 2^63 values of 2^63 fit
}

// Add counts a value.
func (s *Sum) Add(v uint64) {
	s.Values++
	if v != 0 {
		s.NonZero++
	}
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, v, 0)
	s.hi += carry
}

// Total returns the sum.
func (s *Sum) Total() *big.Int {
	n := new(big.Int).SetUint64(s.hi)
	return n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(s.lo))
}

type sumText struct {
	Values  uint64 `json:"values"`
	NonZero uint64 `json:"nonzero"`
	Sum     string `json:"sum"`
}

// MarshalJSON writes the sum in decimal.
func (s Sum) MarshalJSON() ([]byte, error) {
	return json.Marshal(sumText{s.Values, s.NonZero, s.Total().String()})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Sum) UnmarshalJSON(b []byte) error {
	var t sumText
	if err := json.Unmarshal(b, &t); err != nil {
		return err
	}
	n, ok := new(big.Int).SetString(t.Sum, 10)
	if !ok || n.Sign() < 0 || n.BitLen() > 128 {
		return fmt.Errorf("transfer: %q is not a sum", t.Sum)
	}
	*s = Sum{Values: t.Values, NonZero: t.NonZero}
	s.lo = new(big.Int).And(n, new(big.Int).SetUint64(^uint64(0))).Uint64()
	s.hi = n.Rsh(n, 64).Uint64()
	return nil
}
