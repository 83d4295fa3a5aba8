//go:build !linux

package wire

import (
	"net"
	"time"
)

// endDead has the system end a connection on which the other machine has acknowledged no probe for some time. Data that was sent
// and is not acknowledged is sent again for as long as the system likes.
func endDead(conn *net.TCPConn, after time.Duration) error {
	return conn.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: max(int(after/time.Second), 1)})
}
