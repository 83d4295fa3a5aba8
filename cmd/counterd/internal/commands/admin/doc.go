// Package admin has the commands about the server as a whole: CONFIG, SAVE and similar commands, SLOWLOG, COUNTER.HOT and
// SHUTDOWN. It sees a connection as a Conn, and the server as a Server.
package admin
