package report

import (
	"fmt"
	"strconv"
	"time"
)

// Int formats a count with separators: 1,234,567.
func Int[N int | int64 | uint64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Rate formats a number per second with three significant digits or more: 8.42, 731, 1,234,567.
func Rate(perSecond float64) string {
	if perSecond < 100 {
		return Significant(perSecond)
	}
	return Int(int64(perSecond + 0.5))
}

// Significant formats a number with three significant digits: 0.0123, 1.23, 12.3, 123.
func Significant(x float64) string {
	switch abs := max(x, -x); {
	case abs == 0:
		return "0"
	case abs >= 100:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case abs >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	case abs >= 1:
		return strconv.FormatFloat(x, 'f', 2, 64)
	case abs >= 0.1:
		return strconv.FormatFloat(x, 'f', 3, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// Bytes formats a size: 812 B, 1.46 GiB.
func Bytes(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for ; n >= 1024 && i < len(units)-1; i++ {
		n /= 1024
	}
	return Significant(n) + " " + units[i]
}

// Duration formats a duration in the unit that suits it: 730 ns, 8.42 us, 1.20 ms, 3.00 s.
func Duration(d time.Duration) string {
	switch {
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d)
	case d < time.Millisecond:
		return Significant(float64(d)/1e3) + " us"
	case d < time.Second:
		return Significant(float64(d)/1e6) + " ms"
	}
	return Significant(d.Seconds()) + " s"
}
