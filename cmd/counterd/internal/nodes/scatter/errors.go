package scatter

import (
	"bytes"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/gather"
	"github.com/counterd/counterd/internal/errclass"
)

// The errors of parts: which may be asked again, and which a client gets.

// retriable tells whether a reply is an error that says only that the node, or the moment, was wrong. Such an error is never
// within an array: see items.Call and transaction.away.
func retriable(reply []byte) bool {
	if len(reply) == 0 || reply[0] != '-' {
		return false
	}
	code, _, _ := bytes.Cut(reply[1:], []byte(" "))
	switch string(bytes.TrimRight(code, "\r\n")) {
	case "MOVED", "TRYAGAIN", "CLUSTERDOWN", "LOADING", "READONLY", "MASTERDOWN", "NOREPLICAS":
		return true
	}
	return false
}

// passing tells whether a reply is an error of class Transient: nothing was changed, and the command may be made later.
func passing(reply []byte) bool {
	if reply[0] != '-' {
		return false
	}
	class, known := errclass.Of(string(bytes.TrimRight(reply, "\r\n")))
	return known && class == errclass.Transient
}

// refusal is a reply, or the error of a change in doubt if the reply is an error. The session of a lost connection may be busy, and read an earlier copy of the command
// later: the copy is then made behind the refusal of its repeat.
func (p *part) refusal(reply []byte) []byte {
	if reply[0] != '-' || !p.doubt || uncertain(reply) {
		return reply
	}
	return inDoubt(string(reply[1 : len(reply)-2]))
}

// unanswered is the error of a part that was not answered.
func (p *part) unanswered(why error) []byte {
	if p.doubtful != nil {
		return p.doubtful
	}
	text := "no shard owns it"
	if p.shard != nil {
		text = p.shard.String() + " did not answer"
		if why != nil {
			text += ": " + why.Error()
		}
	}
	if p.doubt {
		return inDoubt(text)
	}
	return resp.AppendError(nil, "CLUSTERDOWN "+text)
}

// refusedBy is the error for a client if a shard still refuses its command when the time is over. MOVED and READONLY speak of the
// node that was asked. A client of a forward port knows only this node, and client libraries would take these errors for its own: go-redis closes the
// connection at READONLY, and others ask the address behind MOVED.
func refusedBy(s *gather.Shard, text string) string {
	if code, _, _ := strings.Cut(text, " "); code == "MOVED" || code == "READONLY" {
		return "CLUSTERDOWN " + s.String() + ": " + text
	}
	return text
}

// inDoubt is the error of a change that may have been made.
func inDoubt(text string) []byte {
	return resp.AppendError(nil, "UNCERTAIN the change may have been made: "+text)
}

// uncertain tells whether a reply says that a change was made and is not safe.
func uncertain(reply []byte) bool {
	const code = "-UNCERTAIN"
	return len(reply) > len(code) && string(reply[:len(code)]) == code
}

// answerGone tells whether a reply says that a change was made when it was sent before, and that its answer is not kept.
func answerGone(reply []byte) bool {
	return bytes.HasPrefix(reply, []byte("-IDMPEXPIRED the change was made"))
}

// forgotten tells whether a reply says that a number may have been used, and that this will not be known.
func forgotten(reply []byte) bool {
	return bytes.HasPrefix(reply, []byte("-IDMPEXPIRED")) && !answerGone(reply)
}
