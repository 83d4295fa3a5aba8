package server

import "strings"

// confinement says why a connection may send only some commands: zero for nearly all.
type confinement uint8

const (
	confinedSubscriber confinement = 1 << iota // RESP2 with subscriptions: messages look like replies there
	confinedReplica                            // the log is streamed to it
)

// confinedText refuses what a confined connection must not send; empty: it may.
func (c *client) confinedText(cmd *row) string {
	switch {
	case c.confined&confinedReplica != 0:
		if !cmd.Is("replconf") && !cmd.Is("ping") && !cmd.Is("quit") {
			return "ERR this connection carries the log to a replica: only REPLCONF is allowed"
		}
	case c.confined&confinedSubscriber != 0:
		switch cmd.Name {
		case "subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ping", "quit", "reset":
		default:
			return "ERR Can't execute '" + strings.ReplaceAll(cmd.Name, "|", " ") + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
		}
	}
	return ""
}
