package server

import (
	"crypto/tls"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/net/tlsconf"
)

// What is read from files while the server runs.

// Material is the server's certificates, for whoever listens or connects beside it.
func (s *Server) Material() *tlsconf.Material { return s.tls }

// LinkTLS is how a connection to another node, at a host, is encrypted; nil: it is not.
func (s *Server) LinkTLS(host string) (*tls.Config, error) {
	if c := s.config.Get(); !c.TLS.Replication {
		return nil, nil
	}
	return s.tls.Client(host)
}

// prepare does what may fail of CONFIG SET.
func (s *Server) prepare(old, next *config.Config) error {
	if old.TLS != next.TLS {
		if err := s.tls.Reload(next.TLS); err != nil {
			return err
		}
		s.certificatesRead()
	}
	return nil
}

// Reload is SIGHUP: the files of certificates and keys are read again. Connections that are open keep what they began
// with. Where a file is wrong everything stays as it was.
func (s *Server) Reload() {
	s.config.Hold(func(c *config.Config) {
		if !c.TLS.Given() {
			s.log.Warn("SIGHUP: nothing to reload, TLS certificates are not configured; use CONFIG SET to change settings")
			return
		}
		if err := s.tls.Reload(c.TLS); err != nil {
			s.log.Error("SIGHUP: cannot reload TLS certificates; the previous ones stay in use", "error", err)
			return
		}
		s.certificatesRead()
	})
}

// certificatesRead says what is in force now.
func (s *Server) certificatesRead() {
	subject, until := s.tls.Certificate()
	s.log.Info("TLS certificates loaded", "subject", subject, "valid_until", until)
}
