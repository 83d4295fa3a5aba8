package tlsconf

import (
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
)

// ErrOff is the error of a handshake where no certificate is configured.
var ErrOff = errors.New("tls: no certificate is configured (tls-cert-file)")

// Material holds the configuration in force. All methods may be called by several goroutines at once.
type Material struct {
	now atomic.Pointer[generation]
}

// Load reads what a configuration names. A configuration without files gives a Material whose handshakes fail with
// ErrOff.
func Load(c config.TLS) (*Material, error) {
	m := new(Material)
	if err := m.Reload(c); err != nil {
		return nil, err
	}
	return m, nil
}

// Reload reads all files anew. On an error everything stays as it was.
func (m *Material) Reload(c config.TLS) error {
	g, err := read(c)
	if err != nil {
		return err
	}
	m.now.Store(g)
	return nil
}

// Server is for listeners: each handshake uses the configuration in force when it begins.
func (m *Material) Server() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return m.serving() },
	}
}

// serving is the configuration of a handshake that begins now.
func (m *Material) serving() (*tls.Config, error) {
	if s := m.now.Load().server; s != nil {
		return s, nil
	}
	return nil, ErrOff
}

// Client is for a connection to another node, at host, which may be an address, or empty. It has the configuration in
// force now. It believes whom tls-ca-cert-file and tls-ca-cert-dir name, whatever the name in the certificate, and
// shows this node's.
func (m *Material) Client(host string) (*tls.Config, error) {
	c := m.now.Load().client
	if c == nil {
		return nil, ErrOff
	}
	c = c.Clone()
	if net.ParseIP(host) == nil {
		c.ServerName = host // said to the other side, which may have several certificates
	}
	return c, nil
}

// Certificate is whose certificate this node shows, and until when; "" where there is none.
func (m *Material) Certificate() (subject string, until time.Time) {
	g := m.now.Load()
	return g.subject, g.until
}
