package scatter

import (
	"fmt"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/gather"
)

// assembling has memory that replies were put together in. A connection keeps none: memory for the replies of 64 pages is 32 KB, and to make it
// anew for each turn kept the garbage collector busy for a quarter of the time.
var assembling = sync.Pool{New: func() any { return new(resp.Region) }}

// assembleReplies puts the replies of commands into the places of their marks.
func (f *Scatter) assembleReplies() {
	memory := assembling.Get().(*resp.Region)
	f.out.TakeMemory(memory)
	f.out.SetProtocol(f.call.Out.Protocol())
	at := 0
	took := time.Since(f.began)
	for i := range f.cmds {
		k := &f.cmds[i]
		f.out.Raw(f.call.Out.From(at)[:k.from-at])
		at = k.to
		size := f.out.Len()
		k.merge(f, k)
		if reply := f.out.From(size); k.local(f) != k.n || reply[0] == '-' {
			f.conn.Account(k.cmd, max(1, k.elsewhere(f)), took/time.Duration(len(f.cmds)))
			if reply[0] == '-' {
				f.conn.Failed(k.cmd, reply)
			}
		}
	}
	f.out.Raw(f.call.Out.From(at))
	f.call.Out.Replace(&f.out)
	if f.out.Cap() > maxAssembling {
		f.out.Drop()
	}
	f.out.GiveMemory(memory)
	assembling.Put(memory)
}

// maxAssembling is the most memory for replies, in bytes, that assembling keeps: those of two turns of pages.
const maxAssembling = 128 << 10

// local counts the parts of a command that this node answered.
func (k *order) local(f *Scatter) (n int) {
	for i := range k.n {
		if f.parts[k.first+i].local {
			n++
		}
	}
	return n
}

// elsewhere counts the commands of a series that other shards executed.
func (k *order) elsewhere(f *Scatter) (n int) {
	for _, owner := range k.owners[:len(k.series)] {
		if !f.parts[k.first+int(owner)].local {
			n++
		}
	}
	return n
}

// reset forgets all commands of the turn.
func (f *Scatter) reset() {
	f.round.End()
	clear(f.cmds)
	clear(f.parts)
	clear(f.args)
	f.cmds, f.parts, f.args, f.owners, f.marks = f.cmds[:0], f.parts[:0], f.args[:0], f.owners[:0], f.marks[:0]
	if cap(f.pages.mids) > retainedMids {
		f.pages = pages{}
	}
	if f.Held() > retained {
		f.cmds, f.parts, f.args, f.owners, f.marks, f.shares, f.lists = nil, nil, nil, nil, nil, nil, nil
	}
	f.marked, f.remote, f.again, f.began = 0, false, false, time.Time{}
}

const (
	// retained is how many bytes of memory a connection keeps for its next commands. 256 pages of three shards take as much. An MGET of 60,000 keys
	// takes 2 MB.
	retained = 256 << 10
	// retainedMids is how many posts the page may have whose memory is kept.
	retainedMids = 2048
)

// Held is how many bytes of memory the connection keeps for its next commands.
func (f *Scatter) Held() int {
	const slice = int(unsafe.Sizeof([]byte{}))
	p := &f.pages
	n := cap(f.cmds)*int(unsafe.Sizeof(order{})) + cap(f.parts)*int(unsafe.Sizeof(part{})) + cap(f.shares)*int(unsafe.Sizeof(share{}))
	n += (cap(f.args)+cap(f.lists))*slice + cap(f.owners)*2 + cap(f.marks)*8 + cap(f.head)
	return n + (cap(p.mids)+cap(p.parted))*8 + cap(p.groups) + cap(p.inPart) + cap(p.shares)*int(unsafe.Sizeof(pageShare{}))
}

// mergeNone answers a command that was refused.
func mergeNone(f *Scatter, k *order) { f.out.Error(k.refusal) }

// appendReply appends the reply of a part in the version of the protocol that the client speaks.
func (f *Scatter) appendReply(p *part) {
	if p.local {
		f.out.Raw(p.reply)
	} else {
		gather.AppendAs(&f.out, p.reply)
	}
}

// mergeOne answers a command of one shard.
func mergeOne(f *Scatter, k *order) { f.appendReply(&f.parts[k.first]) }

// appendError appends the first error of a command's parts. It returns false if no part has an error.
func (f *Scatter) appendError(k *order) bool {
	for i := range k.n {
		if p := &f.parts[k.first+i]; p.reply[0] == '-' {
			f.appendReply(p)
			return true
		}
	}
	return false
}

// mergeSum answers the sum of the integers that the parts have.
func mergeSum(f *Scatter, k *order) {
	if f.appendError(k) {
		return
	}
	sum := int64(0)
	for i := range k.n {
		reply := f.parts[k.first+i].reply
		n, _ := strconv.ParseInt(string(reply[1:len(reply)-2]), 10, 64)
		sum += n
	}
	f.out.Int(sum)
}

// mergeArray answers an array of the elements of all parts, in the order of the command's keys.
func mergeArray(f *Scatter, k *order) {
	if f.appendError(k) {
		return
	}
	f.lists = f.lists[:0]
	packed := true
	for i := range k.n {
		p := &f.parts[k.first+i]
		rows := resp.IsPacked(p.reply)
		packed = packed && rows
		switch {
		case p.posts > 0:
			f.lists = append(f.lists, p.rows)
		case rows:
			f.lists = append(f.lists, resp.PackedRows(p.reply))
		default:
			f.lists = append(f.lists, gather.Elements(p.reply))
		}
	}
	if packed {
		mergePacked(f, k)
		return
	}
	size := f.out.Len()
	f.out.Array(len(k.owners))
	for _, part := range k.owners {
		rest, n := f.lists[part], 0
		if resp.IsPacked(f.parts[k.first+int(part)].reply) {
			n = appendRow(&f.out, rest)
		} else if !f.parts[k.first+int(part)].local {
			n = gather.AppendNext(&f.out, rest)
		} else if n = gather.Size(rest); n > 0 {
			f.out.Raw(rest[:n])
		}
		if n == 0 {
			incomplete(f, k, size, int(part))
			return
		}
		f.lists[part] = rest[n:]
	}
	clear(f.lists)
}

// mergePacked is mergeArray for lists of packed rows.
func mergePacked(f *Scatter, k *order) {
	size := f.out.Len()
	if at, err := resp.MergeRows(&f.out, f.lists, k.owners); err != nil {
		incomplete(f, k, size, at)
	}
	clear(f.lists)
}

// incomplete answers an error in the place of an array that begins at size: a part of a command has too few rows.
func incomplete(f *Scatter, k *order, size, part int) {
	f.out.Cut(size)
	f.out.Error(fmt.Sprintf("ERR %v returned an incomplete reply", f.parts[k.first+part].shard))
}

// appendRow appends the first of packed rows, and returns its length among them; 0: there is none.
func appendRow(out *resp.Replies, rows []byte) (n int) {
	row, rest, err := resp.TakeRow(rows)
	switch {
	case err != nil:
		return 0
	case len(row) == 0:
		out.NullArray()
	default:
		out.Raw(row)
	}
	return len(rows) - len(rest)
}
