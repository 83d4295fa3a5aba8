package tlsconf

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
)

// speech sets what may be spoken.
func speech(t *tls.Config, c config.TLS) (err error) {
	if t.MinVersion, t.MaxVersion, err = protocols(c.Protocols); err != nil {
		return err
	}
	if t.CipherSuites, err = ciphers(c.Ciphers); err != nil {
		return err
	}
	return ciphersuites(c.CipherSuites)
}

// protocols reads tls-protocols.
func protocols(text string) (least, most uint16, err error) {
	if strings.TrimSpace(text) == "" {
		return tls.VersionTLS12, tls.VersionTLS13, nil
	}
	for word := range strings.FieldsSeq(text) {
		var v uint16
		switch strings.ToLower(word) {
		case "tlsv1.2":
			v = tls.VersionTLS12
		case "tlsv1.3":
			v = tls.VersionTLS13
		default:
			return 0, 0, fmt.Errorf("tls-protocols: got %.64q, want TLSv1.2, TLSv1.3 or both: older versions are not secure", word)
		}
		if least == 0 || v < least {
			least = v
		}
		most = max(most, v)
	}
	return least, most, nil
}

// suites are those of TLS 1.2 that can be asked for, by OpenSSL's names. Those that Go takes to be unsafe are not here:
// they have no forward secrecy, or an encryption that was broken.
var suites = map[string]uint16{
	"ECDHE-ECDSA-AES128-GCM-SHA256": tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
	"ECDHE-RSA-AES128-GCM-SHA256":   tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	"ECDHE-ECDSA-AES256-GCM-SHA384": tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
	"ECDHE-RSA-AES256-GCM-SHA384":   tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	"ECDHE-ECDSA-CHACHA20-POLY1305": tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	"ECDHE-RSA-CHACHA20-POLY1305":   tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	"ECDHE-ECDSA-AES128-SHA":        tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA,
	"ECDHE-RSA-AES128-SHA":          tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA,
	"ECDHE-ECDSA-AES256-SHA":        tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA,
	"ECDHE-RSA-AES256-SHA":          tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA,
}

// safe are the default ciphers: those with authenticated encryption.
var safe = []string{
	"ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384",
	"ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305",
}

// without are the classes of OpenSSL that no suite here is of: to exclude them changes nothing.
var without = []string{"3DES", "ADH", "AECDH", "ANULL", "ARIA", "CAMELLIA", "DES", "DSS", "ENULL", "EXP", "EXPORT", "IDEA", "KRSA", "LOW", "MD5", "MEDIUM", "NULL",
	"PSK", "RC2", "RC4", "SEED", "SRP"}

// ciphers reads tls-ciphers: names of suites, or DEFAULT or HIGH for all that are safe, and exclusions (!) of ciphers
// that are not here anyway.
func ciphers(text string) (ids []uint16, err error) {
	names := strings.FieldsFunc(text, func(r rune) bool { return r == ':' || r == ',' || r == ' ' })
	add := func(name string) {
		if id := suites[name]; !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, name := range names {
		switch _, known := suites[name]; {
		case known:
			add(name)
		case name == "DEFAULT" || name == "HIGH":
			for _, s := range safe {
				add(s)
			}
		case name[0] == '!' && slices.Contains(without, strings.ToUpper(name[1:])):
		default:
			return nil, fmt.Errorf("tls-ciphers: got %.64q, want DEFAULT, HIGH, or some of %s", name, strings.Join(sorted(suites), " "))
		}
	}
	if len(ids) == 0 {
		if len(names) > 0 {
			return nil, fmt.Errorf("tls-ciphers: got %.64q, which leaves no cipher suite", text)
		}
		return ciphers("DEFAULT")
	}
	return ids, nil
}

// fixed are the suites of TLS 1.3.
var fixed = map[string]uint16{
	"TLS_AES_128_GCM_SHA256":       tls.TLS_AES_128_GCM_SHA256,
	"TLS_AES_256_GCM_SHA384":       tls.TLS_AES_256_GCM_SHA384,
	"TLS_CHACHA20_POLY1305_SHA256": tls.TLS_CHACHA20_POLY1305_SHA256,
}

// ciphersuites reads tls-ciphersuites. crypto/tls has all three in any case, so no other list can be granted.
func ciphersuites(text string) error {
	names := strings.FieldsFunc(text, func(r rune) bool { return r == ':' || r == ',' || r == ' ' })
	if len(names) == 0 {
		return nil
	}
	for name := range fixed {
		if !slices.Contains(names, name) {
			return fmt.Errorf("tls-ciphersuites: %s is missing in %.256q: TLS 1.3 always has %s here", name, text, strings.Join(sorted(fixed), " "))
		}
	}
	return nil
}

func sorted(m map[string]uint16) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
