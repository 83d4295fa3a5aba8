package schema

import (
	"math"
	"strconv"
	"strings"
)

// IDs says how the posts of a counter carry the time when they were made:
//
//	mid   63 ................. Shift | Shift-1 ............ 0
//	      units since Epoch          | machine, sequence, flags
//
// So mids grow with time, and the posts made before a moment are those below a mid. The zero IDs carries no time.
//
//	ids=weibo      s:22:515483463        mids of Weibo since 2011; older ones have fewer digits, and seem to be of 1986
//	ids=snowflake  ms:22:1288834974657   ids of Twitter
//	ids=discord    ms:22:1420070400000
//	ids=mastodon   ms:16:0
//	ids=UNIT:SHIFT:EPOCH                 any other: the unit is ms or s, the epoch is unix time in that unit
type IDs struct {
	Unit  int64 // in milliseconds: 1 or 1000; 0: none
	Shift uint8 // at most 48
	Epoch int64 // unix time in units, at least 0
}

// namedIDs are the layouts that have a name, which is how they are printed.
var namedIDs = []struct {
	name string
	ids  IDs
}{
	{"none", IDs{}},
	{"weibo", IDs{1000, 22, 515483463}},
	{"snowflake", IDs{1, 22, 1288834974657}},
	{"discord", IDs{1, 22, 1420070400000}},
	{"mastodon", IDs{1, 16, 0}},
}

const (
	// maxShift leaves 15 bits for time.
	maxShift = 48
	// maxEpoch is the end of the year 9999 in milliseconds.
	maxEpoch = 253402300799999
	// MaxRetain is the longest time in seconds that a counter keeps its posts by age.
	MaxRetain = 36500 * day
	day       = 24 * 60 * 60
)

// UnixMilli is when a post was made, in unix milliseconds. It is 0 if ids carry no time, and math.MaxInt64 if the time does not fit.
func (f IDs) UnixMilli(mid uint64) int64 {
	units, per := mid>>f.Shift, f.Unit
	if per == 0 {
		return 0
	}
	if units > uint64(math.MaxInt64/per-f.Epoch) {
		return math.MaxInt64
	}
	return (int64(units) + f.Epoch) * per
}

// Before returns a mid: all posts below it were made before a moment, in unix milliseconds. It is 0 if ids carry no time. At most a unit of posts
// that were made before the moment is not below it.
func (f IDs) Before(ms int64) (mid uint64) {
	per := f.Unit
	if per == 0 || ms < 0 {
		return 0
	}
	units := ms/per - f.Epoch
	switch {
	case units <= 0:
		return 0
	case uint64(units) >= (MaxMid+1)>>f.Shift:
		return MaxMid + 1
	}
	return uint64(units) << f.Shift
}

// String is the name of the layout, or its general form.
func (f IDs) String() string {
	for i := range namedIDs {
		if namedIDs[i].ids == f {
			return namedIDs[i].name
		}
	}
	unit := "ms"
	if f.Unit == 1000 {
		unit = "s"
	}
	return unit + ":" + strconv.Itoa(int(f.Shift)) + ":" + strconv.FormatInt(f.Epoch, 10)
}

// check returns an error for a layout that was made by hand and is none.
func (f IDs) check() error {
	if f == (IDs{}) || (f.Unit == 1 || f.Unit == 1000) && f.Shift <= maxShift && f.Epoch >= 0 && f.Epoch <= maxEpoch {
		return nil
	}
	return fail(ErrAttribute, "ids", "ids=%s is out of range: want a unit of ms or s, a shift of 0 to %d bits, and an epoch of 0 to %d", f, maxShift, int64(maxEpoch))
}

// parseIDs reads the value of the attribute ids.
func parseIDs(value string) (IDs, error) {
	for i := range namedIDs {
		if strings.EqualFold(value, namedIDs[i].name) {
			return namedIDs[i].ids, nil
		}
	}
	parts := strings.Split(value, ":")
	if len(parts) == 3 {
		f := IDs{Unit: 1}
		if strings.EqualFold(parts[0], "s") {
			f.Unit = 1000
		}
		shift, err1 := strconv.ParseUint(parts[1], 10, 8)
		epoch, err2 := strconv.ParseUint(parts[2], 10, 63)
		if known := f.Unit == 1000 || strings.EqualFold(parts[0], "ms"); known && err1 == nil && err2 == nil {
			f.Shift, f.Epoch = uint8(shift), int64(epoch)
			return f, f.check()
		}
	}
	return IDs{}, fail(ErrAttribute, "ids", "ids=%s is unknown: want weibo, snowflake, discord, mastodon, UNIT:SHIFT:EPOCH (as s:22:515483463) or none", quote(value))
}

// retainUnits are those of the attribute retain, the longest first.
var retainUnits = []struct {
	letter byte
	unit   int64 // in seconds
}{{'d', day}, {'h', 60 * 60}, {'m', 60}, {'s', 1}}

// appendRetain appends a length of time in the longest unit that it is a multiple of. 0 is off.
func appendRetain(dst []byte, d int64) []byte {
	if d == 0 {
		return append(dst, "off"...)
	}
	for _, u := range retainUnits {
		if d%u.unit == 0 {
			return append(strconv.AppendInt(dst, d/u.unit, 10), u.letter)
		}
	}
	return dst // never: each is a multiple of a second
}

// checkRetain returns an error for a length of time in seconds that is out of range.
func checkRetain(d int64) error {
	if d < 0 || d > MaxRetain {
		return fail(ErrAttribute, "retain", "retain=%ds is out of range: want 1s to %dd, or off", d, MaxRetain/day)
	}
	return nil
}

// parseRetain reads the value of the attribute retain, in seconds.
func parseRetain(value string) (int64, error) {
	if strings.EqualFold(value, "off") {
		return 0, nil
	}
	if last := len(value) - 1; last > 0 {
		n, err := strconv.ParseUint(value[:last], 10, 32)
		for _, u := range retainUnits {
			if err == nil && value[last]|0x20 == u.letter && n > 0 {
				return int64(n) * u.unit, checkRetain(int64(n) * u.unit)
			}
		}
	}
	return 0, fail(ErrAttribute, "retain", "retain=%s is not a length of time: want a number of s, m, h or d (as 730d), or off", quote(value))
}
