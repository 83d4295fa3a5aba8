package server

import (
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
)

// confinement says why a connection may send only some commands: zero for nearly all.
type confinement uint8

const (
	confinedSubscriber confinement = 1 << iota // RESP2 with subscriptions: messages look like replies there
	confinedReplica                            // the log is streamed to it
	confinedReader                             // it came by a listener for reads only; for as long as it lasts
)

// confinedText refuses what a confined connection must not send; empty: it may.
func (c *client) confinedText(cmd *row) string {
	if c.confined&confinedReader != 0 {
		if text := readerText(cmd); text != "" {
			return text
		}
	}
	switch {
	case c.confined&confinedReplica != 0:
		if !cmd.Is("replconf") && !cmd.Is("ping") && !cmd.Is("quit") {
			return "ERR this connection carries the log to a replica: only REPLCONF is allowed"
		}
	case c.confined&confinedSubscriber != 0:
		switch cmd.Name {
		case "subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe", "ping", "quit", "reset":
		default:
			return "ERR Can't execute '" + cmd.Name + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
		}
	}
	return ""
}

// readerText refuses what must not be sent to a listener for reads only; empty: it may. A password changes nothing
// there. Who asks may read data and messages, be told what the server is, and set up its own connection; what is not
// known to be harmless is refused, so a new command is until its row or this says otherwise.
func readerText(cmd *row) string {
	switch {
	case cmd.Reads():
		return ""
	case cmd.Flags&command.Write != 0:
		return errReaderWrites
	case cmd.Flags&command.Admin != 0:
		return errReaderMay(cmd)
	}
	switch cmd.Group {
	case "connection", "transactions", "cluster": // what a transaction holds was let in one by one
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

const errReaderWrites = "READONLY This port is for reads only: it accepts no changes."

func errReaderMay(cmd *row) string {
	return "NOPERM This port is for reads only: '" + strings.ReplaceAll(cmd.Name, "|", " ") + "' is not allowed on it"
}
