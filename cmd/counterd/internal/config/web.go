package config

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

// Web is the part of the configuration about HTTP.
type Web struct {
	MetricsAddr string // [host]:port, empty = nothing is shown
	MidTime     string // how mids carry time: none, weibo or snowflake
}

func (w *Web) validate(tls *TLS, errs *[]error) {
	if w.MetricsAddr == "" {
		if tls.Metrics {
			*errs = append(*errs, errors.New("metrics-tls: got yes without metrics-addr"))
		}
		return
	}
	if _, _, err := ParseMetricsAddr(w.MetricsAddr); err != nil {
		*errs = append(*errs, err)
	}
}

// ParseMetricsAddr reads metrics-addr, [host]:port, for net.Listen. Without a host it is 127.0.0.1; a host is as one of
// bind.
func ParseMetricsAddr(addr string) (network, listen string, err error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", "", fmt.Errorf("metrics-addr: got %q, want [host]:port", addr)
	}
	if n, err := net.LookupPort("tcp", port); err != nil || n == 0 && port != "0" {
		return "", "", fmt.Errorf("metrics-addr: got port %q, want 0..65535", port)
	}
	switch {
	case host == "":
		return "tcp", net.JoinHostPort("127.0.0.1", port), nil
	case host == "*" || host == "0.0.0.0": // of IPv6 nothing, as with --bind
		return "tcp4", net.JoinHostPort("0.0.0.0", port), nil
	case strings.Contains(host, ":"):
		return "tcp6", addr, nil
	}
	return "tcp", addr, nil
}
