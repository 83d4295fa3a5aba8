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
