package command

import (
	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
)

// AskPosts is the Asks of COUNTER.MGET: for its posts, or where it names columns for these numbers of them.
func AskPosts(r Rights, args [][]byte) (refused int) {
	if r.Counter(args[1], NeedRead) {
		return allowed
	}
	mids, columns := args[2:], [][]byte(nil)
	for i, a := range mids {
		if i > 0 && resp.EqualFold(a, "COLUMNS") {
			mids, columns = mids[:i], mids[i+1:]
			break
		}
	}
	for i, mid := range mids {
		if !r.Post(args[1], mid, columns, NeedRead) {
			return 2 + i
		}
	}
	return allowed
}

// AskRows is the Asks of COUNTER.MSET: for the numbers that it sets, as MSET asks for its keys. A user that may not write
// all of the counter must name the columns: without their names only the schema says which arguments are mids, and it may
// change between this question and the command.
func AskRows(r Rights, args [][]byte) (refused int) {
	if r.Counter(args[1], NeedWrite) {
		return allowed
	}
	rows := args[2 : len(args)-idmp.TailLen(args)]
	for i := len(rows) - 1; i > 0; i-- {
		if resp.EqualFold(rows[i], "COLUMNS") {
			columns := rows[i+1:]
			for at := 0; at < i; at += 1 + len(columns) {
				if !r.Post(args[1], rows[at], columns, NeedWrite) {
					return 2 + at
				}
			}
			return allowed
		}
	}
	return 1
}
