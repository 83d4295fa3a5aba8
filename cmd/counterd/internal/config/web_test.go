package config

import (
	"strings"
	"testing"
)

func TestParseMetricsAddr(t *testing.T) {
	for addr, want := range map[string]string{
		":9121": "tcp 127.0.0.1:9121", "127.0.0.1:0": "tcp 127.0.0.1:0", "*:1": "tcp4 0.0.0.0:1", "0.0.0.0:1": "tcp4 0.0.0.0:1",
		"[::]:2": "tcp6 [::]:2", "[::1]:2": "tcp6 [::1]:2", "host.lan:3": "tcp host.lan:3",
		"9121": "", "": "", "a:b:c": "", ":": "", ":-1": "", ":65536": "", ":http/": "",
	} {
		network, listen, err := ParseMetricsAddr(addr)
		if got := strings.TrimSpace(network + " " + listen); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", addr, got, err, want)
		}
	}
}

// TestMetricsTLS: HTTPS wants an address, a certificate, and whose certificates to believe if clients must show one.
func TestMetricsTLS(t *testing.T) {
	for _, c := range []struct{ addr, cert, ca, auth, wrong string }{
		{"", "c", "ca", "yes", "without metrics-addr"},
		{":1", "", "ca", "yes", "need tls-cert-file"},
		{":1", "c", "", "yes", "tls-ca-cert-file"},
		{":1", "c", "", "no", ""},
		{":1", "c", "ca", "yes", ""},
	} {
		conf := Default()
		conf.MetricsAddr, conf.TLS.Metrics = c.addr, true
		conf.TLS.CertFile, conf.TLS.KeyFile, conf.TLS.CACertFile, conf.TLS.AuthClients = c.cert, c.cert, c.ca, c.auth
		err := conf.Validate()
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}
