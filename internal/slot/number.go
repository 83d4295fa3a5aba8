package slot

import (
	"math/bits"
	"sort"
)

// The posts of a group, numbered in the order of their ids, so that data kept by group are as dense as ids are: of
// 10,000 ids that differ in their last four digits 34 to 45 are of a group, and which ones depends on what the other
// digits contribute to the CRC16 alone. That is one of 256 classes:
//
//	id                  1908900  6004
//	                    prefix   last
//	class of last       group xor class of the prefix     256 lists of ids' last digits, of all ids with that class
//	number              prefix * perPrefix + place of last in its list
//
// perPrefix is the length of the longest list. So a number takes 7.7 bits less than an id, and 0.3 more than it must.
// Ids of less than five digits have lists of their own, as they have no zeros in front.
const (
	lastDigits = 10_000
	perPrefix  = 49
)

// places holds the place of each four digits in their list, and lists the lists. first and firsts are of ids of less
// than five digits, by group instead of class.
var (
	places, first [lastDigits]uint8
	lists, firsts [Groups][]uint16
)

// initNumbers makes the tables.
func initNumbers() {
	for last := range uint64(lastDigits) {
		class := fours[0][last]
		places[last] = uint8(len(lists[class]))
		lists[class] = append(lists[class], uint16(last))
		group := Group(last)
		first[last] = uint8(len(firsts[group]))
		firsts[group] = append(firsts[group], uint16(last))
	}
}

// Number is the number of a post among those of its group: higher for higher ids.
func Number(mid uint64) uint64 {
	prefix := mid / lastDigits
	if last := mid - prefix*lastDigits; prefix > 0 {
		return prefix*perPrefix + uint64(places[last])
	}
	return uint64(first[mid])
}

// list has the last digits of the posts of a group with a prefix, rising.
func list(group uint8, prefix uint64) []uint16 {
	if prefix == 0 {
		return firsts[group]
	}
	return lists[group^Group(prefix*lastDigits)]
}

// Post is the post of a group with a number that Number has returned for one; other numbers give any post.
func Post(group uint8, number uint64) uint64 {
	prefix := number / perPrefix
	of := list(group, prefix)
	return prefix*lastDigits + uint64(of[min(number-prefix*perPrefix, uint64(len(of)-1))])
}

// NumberFrom is the lowest number that a post of a group with an id of mid or above can have; no post below mid has it.
func NumberFrom(group uint8, mid uint64) uint64 {
	prefix := mid / lastDigits
	of, last := list(group, prefix), mid-prefix*lastDigits
	return prefix*perPrefix + uint64(sort.Search(len(of), func(i int) bool { return uint64(of[i]) >= last }))
}

// Least is the lowest id of mid or above that is of a group; MaxUint64 where there is none.
func Least(group uint8, mid uint64) uint64 {
	for prefix := mid / lastDigits; ; prefix++ {
		for _, last := range list(group, prefix) {
			id, carry := bits.Add64(prefix*lastDigits, uint64(last), 0)
			if carry != 0 {
				return ^uint64(0)
			}
			if id >= mid {
				return id
			}
		}
	}
}
