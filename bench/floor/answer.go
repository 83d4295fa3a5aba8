//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// answer is the fixed reply to a command.
type answer struct {
	name    string // of the command, with the end of its line
	replies []byte // atOnce of them, so that those of a pipeline are one send
	reply   int    // length of one
}

// atOnce is how many replies are sent at once.
const atOnce = 512

func newAnswer(name, reply string) *answer {
	return &answer{name: name + "\r\n", replies: bytes.Repeat([]byte(reply), atOnce), reply: len(reply)}
}

const schema = "ADD COUNTER weibo\r\nADD COLUMN weibo comment suffix=cntcm\r\nADD COLUMN weibo repost suffix=cntrn\r\nADD COLUMN weibo attitude suffix=cntan"

// The values are those that most posts of the load have. COUNTER.MGET is of 20 posts.
var (
	pong    = newAnswer("PING", "+PONG\r\n")
	done    = newAnswer("", "+OK\r\n") // to all commands that have no other answer
	answers = []*answer{
		newAnswer("INCR", ":1\r\n"),
		newAnswer("GET", "$1\r\n0\r\n"),
		newAnswer("COUNTER.MGET", "*20\r\n"+strings.Repeat("*3\r\n:0\r\n:0\r\n:0\r\n", 20)),
		newAnswer("DBSIZE", ":0\r\n"),
		newAnswer("INFO", "-ERR unknown command\r\n"),
		newAnswer("SCHEMA", fmt.Sprintf("$%d\r\n%s\r\n", len(schema), schema)),
		pong,
	}
)

// choose returns the answer to the commands of a read, which have one name, and their number. last is the answer to those of the read before, the
// last of which may end in this one. Each command of counterbench is an array, which begins with '*'; no argument has this byte.
func choose(commands []byte, last *answer) (*answer, int) {
	if bytes.HasPrefix(commands, []byte(pong.name)) { // bench/lib.sh asks without an array whether the server is there
		return pong, 1
	}
	n := bytes.Count(commands, []byte{'*'})
	if commands[0] != '*' {
		return last, n
	}
	_, rest, _ := bytes.Cut(commands, []byte("\r\n")) // behind "*2"
	_, name, _ := bytes.Cut(rest, []byte("\r\n"))     // behind "$3"
	for _, a := range answers {
		if bytes.HasPrefix(name, []byte(a.name)) {
			return a, n
		}
	}
	return done, n
}

// send sends n replies.
func (a *answer) send(fd, n int) error {
	for n > 0 {
		b := a.replies[:min(n, atOnce)*a.reply]
		n -= atOnce
		for len(b) > 0 {
			sent, _, err := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_NOSIGNAL, 0, 0)
			if err != 0 {
				return os.NewSyscallError("sendto", err)
			}
			b = b[sent:]
		}
	}
	return nil
}
