package wire

import "strconv"

// AppendArray appends the head of a command of n arguments.
func AppendArray(dst []byte, n int) []byte {
	dst = append(dst, '*')
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, '\r', '\n')
}

// AppendArg appends one argument.
func AppendArg(dst []byte, arg string) []byte {
	dst = appendBulkHead(dst, len(arg))
	dst = append(dst, arg...)
	return append(dst, '\r', '\n')
}

// AppendBytes appends one argument.
func AppendBytes(dst []byte, arg []byte) []byte {
	dst = appendBulkHead(dst, len(arg))
	dst = append(dst, arg...)
	return append(dst, '\r', '\n')
}

// AppendUint appends a number in decimal as one argument.
func AppendUint(dst []byte, v uint64) []byte {
	dst = appendBulkHead(dst, digits(v))
	dst = strconv.AppendUint(dst, v, 10)
	return append(dst, '\r', '\n')
}

// AppendKey appends the argument "mid.suffix", or plain "mid" where suffix is empty.
func AppendKey(dst []byte, mid uint64, suffix string) []byte {
	if suffix == "" {
		return AppendUint(dst, mid)
	}
	dst = appendBulkHead(dst, digits(mid)+1+len(suffix))
	dst = strconv.AppendUint(dst, mid, 10)
	dst = append(dst, '.')
	dst = append(dst, suffix...)
	return append(dst, '\r', '\n')
}

// AppendNamed appends the argument "prefix" followed by v in decimal.
func AppendNamed(dst []byte, prefix string, v uint64) []byte {
	dst = appendBulkHead(dst, len(prefix)+digits(v))
	dst = append(dst, prefix...)
	dst = strconv.AppendUint(dst, v, 10)
	return append(dst, '\r', '\n')
}

// AppendCommand appends a whole command.
func AppendCommand(dst []byte, args ...string) []byte {
	dst = AppendArray(dst, len(args))
	for _, arg := range args {
		dst = AppendArg(dst, arg)
	}
	return dst
}

func appendBulkHead(dst []byte, n int) []byte {
	dst = append(dst, '$')
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, '\r', '\n')
}

// digits returns how many decimal digits v has.
func digits(v uint64) int {
	n := 1
	for v >= 10000 {
		v /= 10000
		n += 4
	}
	switch {
	case v >= 1000:
		return n + 3
	case v >= 100:
		return n + 2
	case v >= 10:
		return n + 1
	}
	return n
}
