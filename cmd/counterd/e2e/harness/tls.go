package harness

import (
	"strconv"

	"github.com/counterd/counterd/internal/testkit/tlstest"
)

// TlsArgs are the settings of a port for TLS.
func TlsArgs(ca *tlstest.CA, own tlstest.Pair, port int) []string {
	return []string{"--tls-port", strconv.Itoa(port), "--tls-cert-file", own.CertFile, "--tls-key-file", own.KeyFile, "--tls-ca-cert-file", ca.File}
}
