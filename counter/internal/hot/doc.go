// Package hot is the block that counters in memory live in: a flat, pointer-free, bit-packed open-addressed
// table of the items of one mid range. It knows nothing of files, locks, clocks or goroutines; the engine above
// owns the memory, the lock and the decision when a table is replaced by a bigger or denser one.
//
// # Why not a map
//
// An item of the usual three columns is 40 bits of counters and a 64-bit id. A Go map takes 104 bytes for it, an
// array of 8-byte keys and 5-byte values at 90 % load 14.4. A block covers only the range [lo, hi), so most of
// the id is known already: see "Quotienting". At 90 % load the same item takes 8.5 bytes here, 5 with widths chosen for the values of real
// posts, and a lookup touches one or two neighbouring cache lines.
//
// # Buckets
//
// The table is an array of m buckets of 8 slots, m prime. A bucket is 17 + W bytes, where W is the number of
// bits of an item that its lane does not hold:
//
//	byte 0         16       17                            17+W
//	     +---------+--------+------------------------------+
//	     | 8 lanes | passed | 8 items of W bits, slot 0    |
//	     | 16 bit  | 8 bit  | first, least significant     |
//	     |         |        | bit first, no padding        |
//	     +---------+--------+------------------------------+
//
//	lane  15           5 4       0        item  0        r          r+Off(c)      W
//	     +--------------+---------+            +--------+----------+-------------+
//	     | quotient     | probe+1 |            | rest of| ...      | column c    |
//	     | low 11 bits  | 0=empty |            | quot.  |          | Width bits  |
//	     +--------------+---------+            +--------+----------+-------------+
//
// The 8 lanes are two 64-bit words: a lookup compares all eight with two SWAR operations (see match) and only
// reads the items of lanes that agree in 11 quotient bits and the probe number, one in 2000 of the others.
//
// # Quotienting
//
// Let x = mid-lo, q = x/m and r = x mod m. The first bucket of the key is
//
//	start = (r + f(q)) mod m,   0 <= f(q) < m,
//
// one round of a Feistel network: for a fixed q it is a bijection of r, so (start, q) gives r = (start - f(q)) mod m
// and x = q*m + r exactly. Only q is stored: about 12+3 bits for ids with a mean gap of 4000, instead of 64. As f is a
// seeded hash, ids that are equal modulo m (or chosen by somebody to collide) spread over the buckets all the same;
// ids that are dense spread better than random ones, as each q fills every bucket once.
// The domain is not rounded to a power of two, as a permutation of bits would need: that saves half a bit an item.
//
// # Probing
//
// A key that finds its bucket full goes to start + i*step(q) mod m, i = 1, 2, ... As m is prime and 0 < step < m,
// i*step is 0 mod m only for i = 0 mod m: the sequence visits every bucket once before it returns. i is
// stored in the lane, so the key comes back from the place it was found in: start = bucket - i*step(q) mod m.
// At most MaxProbes buckets are looked at: an insert that finds them all full answers ErrFull, whatever the load, and
// the engine splits or enlarges the block. Nothing probes without bound.
//
// # Delete without trails
//
// Each bucket counts the keys that passed it by because it was full when they came (passed, saturating at 255 and
// then sticky). A lookup stops at the first bucket that nobody passed. Inserting adds one to every bucket
// passed, deleting takes that one off again, so a table that was filled and emptied is as quick as a new one.
// An insert looks for its key until that stop before it takes a free slot seen on the way; taking the slot
// at once would store a key twice.
//
// # Overflow
//
// A column's all-ones pattern, where its width is below its max, says: the value is in the overflow table, a
// small hash table by (slot, column). Real posts put 0.1-0.6 % of values above 8 bits there, 0.02 % above 16.
//
// # Widths
//
// A column is packed as wide as the layout says: its hint, or any width up to its max. Demand counts what the values of a block need, and
// chooses the widths that take the least memory, overflow entries at their true cost (100 bits) included. Room for the entries is part of
// the table's memory; Crowded tells when they are more than that, and the widths should be chosen again. A change never fails for want of room.
//
// # Invariants
//
//   - a mid is in at most one slot, in [lo, hi), at a bucket of its probe sequence
//   - passed(b) is the number of items whose probe sequence visits b before their own bucket, or 255 once it got there
//   - every column of every used slot is below its limit; an overflow entry exists exactly for each mark
//   - Len() is the number of used lanes
//
// Check verifies all of them; tests call it after each operation.
package hot
