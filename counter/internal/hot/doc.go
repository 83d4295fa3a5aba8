// Package hot is the block that counters in memory live in: a flat, pointer-free, bit-packed open-addressed
// table of the items of one mid range. It knows nothing of files, locks, clocks or goroutines; the engine above
// owns the memory, the lock and the decision when a table is replaced by a bigger or denser one.
//
// # Files
//
//	table.go                              a table: the lanes, which say what mid is at which place
//	geometry.go                           mids to places and back
//	items.go overflow.go                  the columns of the places; values wider than their column
//	mem.go                                loads and stores of bits: all unsafe access
//	prefetch_asm.go prefetch_other.go     requests for cache lines
//	select.go pick.go stage.go            items by their values, as rows and as they are packed; the keys of many items
//	vector.go vector_amd64.go vector_other.go the same by vector instructions, of all items of a bucket at once
//	repack.go widths.go                   all items; copies into other tables; widths of columns by what they hold
//	extend.go                             the same places with other columns
//	image.go check.go                     a table as bytes; the invariants, verified
//
// # Why not a map
//
// An item of the usual three columns is 40 bits of counters and a 64-bit id. A Go map takes 104 bytes for it, an array
// of 8-byte keys and 5-byte values at 90 % load 14.4. A block covers only the range [lo, hi), so most of the id is
// known already: see "Quotienting". At 90 % load the same item takes 8.5 bytes here, 5 with widths chosen for the
// values of real posts, and a lookup touches one or two neighbouring cache lines.
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
//	lane  15           5 4       0        item  0        R          R+Off(c)      W
//	     +--------------+---------+            +--------+----------+-------------+
//	     | twisted quot.| probe+1 |            | rest of| ...      | column c    |
//	     | low 11 bits  | 0=empty |            | quot.  |          | Width bits  |
//	     +--------------+---------+            +--------+----------+-------------+
//
// The 8 lanes are two 64-bit words: a lookup compares all eight with two SWAR operations (see match) and only
// reads the items of lanes that agree in 11 quotient bits and the probe number, one in 2000 of the others.
//
// # Quotienting
//
// Where all mids are of one group of hash slots, the key is not the mid but its number in the group (Config.OneGroup).
//
// Let x = mid-lo, q = x/m and r = x mod m. Two rounds of a Feistel network make of these the quotient that is stored,
// of k bits, and the first bucket of the key:
//
//	twisted = (q + t(r)) mod 2^k        0 <= t(r) < 2^k, k = 11 or as many bits as the largest q has
//	start   = (r + f(twisted)) mod m    0 <= f(twisted) < m
//
// For a fixed r the first is a bijection of q, for a fixed twisted quotient the second is one of r, so (start,
// twisted) gives r = (start - f(twisted)) mod m, then q = (twisted - t(r)) mod 2^k, and x = q*m + r exactly. Only the
// twisted quotient is stored: about 12+3 bits for ids with a mean gap of 4000, instead of 64. A quotient takes whole
// bits in any case, so the first round costs no memory. The domain is not rounded to a power of two, as a permutation
// of bits would need: that saves half a bit an item.
//
// # Spread
//
// t and f are hashes with a secret seed, another for each table. Nobody can choose ids that meet in a bucket, nor may
// a rule do so that ids come by, like every tenth number. Let n ids, whichever they are, be in a table, and call those
// with the same twisted quotient a row. Ids of a row differ in r, so each bucket is the start of one of them at most,
// and f moves each row by itself. The load of a bucket, the number of ids that start there, is therefore a sum of
// independent choices with mean n/m and no larger variance. That much holds with f alone.
//
// What f alone does not give is that buckets are independent of each other: the loads of two buckets at a distance d
// vary together as far as rows hold pairs of ids whose r differ by d, as both are hit or missed at once. Without the
// first round a row of every tenth number holds nothing but such pairs, for d = 10, 20, ... Every tenth bucket is full
// at once, a row whose step is a multiple of 10 looks at no other, and tables were full at a load of 0.49. With it two
// ids of different r are in one row with a probability of 2^-k. An id has n/m others, about, at a given d, so the
// loads of two buckets correlate by n/m/2^k, 0.4 % at most.
//
// The weakest t that would do in theory, r times a secret odd number (multiply-shift), is not enough: of 50,000 tables
// of evenly spaced ids 12 were full below 0.87, the worst of twice as many at 0.70. With the hash that f has, none of
// 100,000 was below 0.88, and tables of whatever rule get as full as those of random ids: TestSpread, for all strides
// to 4096, snowflakes, every width of a key, and 10,000 secrets. It costs 1.4 ns.
//
// A table may still be full early, by ill luck: one in a thousand at a load of 0.90. The engine makes another then,
// with another seed, and bounds how often. Two such misfortunes have nothing to do with each other.
//
// # Probing
//
// A key that finds its bucket full goes to start + i*step(q) mod m, i = 1, 2, ... As m is prime and 0 < step < m,
// i*step is 0 mod m only for i = 0 mod m: the sequence visits every bucket once before it returns. i is
// stored in the lane, so the key comes back from the place it was found in: start = bucket - i*step(q) mod m.
// At most MaxProbes buckets are looked at: an insert that finds them all full answers ErrFull, whatever the load, and
// the engine splits or enlarges the block. Nothing probes without bound.
//
// # Cache misses
//
// One key in four of a full table is not in its first bucket. A caller that looks for many keys makes its requests in
// stages, so that each waits as little as possible for the stage before: for the lines of the tables themselves
// (PrefetchHeader), for the first buckets (Prefetch), and, shortly before a key's turn, for the second one if the first has
// not got it (Peek). All of these need no lock, as they change nothing of the table. They decide which cache lines are
// requested, and where FindAt looks first.
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
// Select and Pick, which look for items by their values, compare packed values eight slots at a time, in 2 ns an item. Where
// only values that are marks can meet a condition, as most conditions are that few items meet, it goes over the
// overflow table alone.
//
// # Widths
//
// A column is packed as wide as the layout says: its hint, or any width up to its max. Demand counts what the values of
// a block need, and chooses the widths that take the least memory, overflow entries at their true cost (100 bits)
// included. Room for the entries is part of the table's memory; Crowded tells when they are more than that, and the
// widths should be chosen again. A change never fails for want of room.
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
