// Package slot tells which hash slot of a cluster a post belongs to: that of its id in decimal, as Redis Cluster hashes
// a key (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/). There are 16,384 slots; 64
// neighbouring ones are a group, the unit by which posts, and what was done for producers, are kept and moved.
//
//	key                       hashed                     row
//	19089006004               the key                    of the first counter
//	{19089006004}.cntcm       what is in braces          column comment
//	weibo:{19089006004}       what is in braces          of the counter weibo
//	19089006004.cntcm         the key, with its suffix   a client looks for it elsewhere than its row is: refused
package slot

import "bytes"

const (
	// Slots is how many hash slots there are.
	Slots = 16384
	// Groups is how many groups of neighbouring slots there are.
	Groups = 256
	// PerGroup is how many slots a group has.
	PerGroup = Slots / Groups
)

// crcTable holds the CRC16 (CCITT, XModem) of each byte.
var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()

// OfKey is the hash slot of a key as a client computes it: of the text between the first { and the next } after it, if
// that is not empty, else of the whole key. Any bytes have one.
func OfKey(key []byte) uint16 {
	if i := bytes.IndexByte(key, '{'); i >= 0 {
		if n := bytes.IndexByte(key[i+1:], '}'); n > 0 {
			key = key[i+1 : i+1+n]
		}
	}
	crc := uint16(0)
	for _, b := range key {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^b]
	}
	return crc % Slots
}

// Of is the hash slot of a post.
func Of(mid uint64) uint16 { return crc16(mid) % Slots }

// GroupOf is the group of a hash slot.
func GroupOf(slot uint16) uint8 { return uint8(slot / PerGroup) }
