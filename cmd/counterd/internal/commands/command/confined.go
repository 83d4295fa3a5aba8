package command

import "strings"

// Confinement says why a connection may send only some commands: zero for nearly all.
type Confinement uint8

const (
	ConfinedSubscriber Confinement = 1 << iota // RESP2 with subscriptions: messages look like replies there
	ConfinedReplica                            // the log is streamed to it
	ConfinedReader                             // it came by a listener for reads only; for as long as it lasts
)

// Refusal says why a confined connection must not send a command; empty: it may.
func (c Confinement) Refusal(cmd *Access) string {
	if c&ConfinedReader != 0 {
		if text := readerText(cmd); text != "" {
			return text
		}
	}
	switch {
	case c&ConfinedReplica != 0:
		if !cmd.Is("replconf") && !cmd.Is("ping") && !cmd.Is("quit") {
			return "ERR this connection carries the log to a replica: only REPLCONF is allowed"
		}
	case c&ConfinedSubscriber != 0:
		switch cmd.Name {
		case "subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe", "ping", "quit", "reset":
		default:
			return "ERR Can't execute '" + cmd.Name + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
		}
	}
	return ""
}

// readerText refuses what must not be sent to a listener for reads only; empty: it may. A password changes nothing
// there. The client may read data and messages, learn about the server, and set up its own connection; a command
// that is not known to be harmless is refused. A new command is refused until its row or this list says otherwise.
func readerText(cmd *Access) string {
	switch {
	case cmd.Reads():
		return ""
	case cmd.Flags&Write != 0:
		return ErrReaderWrites
	case cmd.Flags&Admin != 0:
		return errReaderMay(cmd)
	}
	switch cmd.Group {
	case "connection", "transactions", "cluster": // the commands of a transaction were checked one by one
		return ""
	case "pubsub":
		if !cmd.Is("publish") && !cmd.Is("spublish") {
			return ""
		}
	}
	switch name, sub, _ := strings.Cut(cmd.Name, "|"); {
	case name == "info", name == "time", name == "role", name == "lastsave", name == "command", name == "acl", sub == "help":
		return ""
	}
	return errReaderMay(cmd)
}

// ErrReaderWrites refuses a change on a listener for reads only.
const ErrReaderWrites = "READONLY This port is for reads only: it accepts no changes."

func errReaderMay(cmd *Access) string {
	return "NOPERM This port is for reads only: '" + strings.ReplaceAll(cmd.Name, "|", " ") + "' is not allowed on it"
}
