package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
)

// errRaw: the input is no array of bulk strings.
var errRaw = errors.New("not an array of bulk strings")

// maxArgument bounds an argument that is read; a longer one passes as it is.
const maxArgument = 1 << 20

// readRequest reads one command. raw has its bytes, also when the error is errRaw: then they are the part that was read.
func readRequest(r *bufio.Reader) (args [][]byte, raw []byte, err error) {
	number := func(prefix byte) (int, error) {
		line, err := r.ReadSlice('\n')
		raw = append(raw, line...)
		if err != nil {
			if errors.Is(err, bufio.ErrBufferFull) {
				err = errRaw
			}
			return 0, err
		}
		digits := bytes.TrimSuffix(line[1:], []byte("\r\n"))
		n, err := strconv.Atoi(string(digits))
		if line[0] != prefix || err != nil || n < 0 || n > maxArgument {
			return 0, errRaw
		}
		return n, nil
	}
	first, err := r.Peek(1)
	if err != nil {
		return nil, nil, err
	}
	if first[0] != '*' {
		return nil, nil, errRaw
	}
	n, err := number('*')
	if err != nil {
		return nil, raw, err
	}
	for range n {
		size, err := number('$')
		if err != nil {
			return nil, raw, err
		}
		at := len(raw)
		raw = append(raw, make([]byte, size+2)...)
		if k, err := io.ReadFull(r, raw[at:]); err != nil {
			return nil, raw[:at+k], err
		}
		if !bytes.HasSuffix(raw, []byte("\r\n")) {
			return nil, raw, errRaw
		}
		args = append(args, raw[at:at+size])
	}
	return args, raw, nil
}

// appendRequest appends a command.
func appendRequest(dst []byte, args [][]byte) []byte {
	dst = append(strconv.AppendInt(append(dst, '*'), int64(len(args)), 10), '\r', '\n')
	for _, a := range args {
		dst = append(strconv.AppendInt(append(dst, '$'), int64(len(a)), 10), '\r', '\n')
		dst = append(append(dst, a...), '\r', '\n')
	}
	return dst
}
