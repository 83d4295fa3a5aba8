package tlsconf

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/youmark/pkcs8"

	"github.com/counterd/counterd/cmd/internal/secretfile"
)

// readPair reads a certificate and its private key. The names are those of the settings.
func readPair(certName, certFile, keyName, keyFile, pass string) (pair tls.Certificate, err error) {
	switch {
	case certFile == "":
		return pair, fmt.Errorf("%s: got none, want one with %s", certName, keyName)
	case keyFile == "":
		return pair, fmt.Errorf("%s: got none, want one with %s", keyName, certName)
	}
	cert, err := os.ReadFile(certFile)
	if err != nil {
		return pair, fmt.Errorf("%s: %w", certName, err)
	}
	secret, err := secretfile.Read(keyFile)
	if err != nil {
		return pair, fmt.Errorf("%s: %w", keyName, err)
	}
	defer clear(secret)
	plain, err := decrypted(secret, pass)
	if err != nil {
		return pair, fmt.Errorf("%s: %s: %w", keyName, keyFile, err)
	}
	defer clear(plain)
	if pair, err = tls.X509KeyPair(cert, plain); err != nil {
		return pair, fmt.Errorf("%s %s, %s %s: %w", certName, certFile, keyName, keyFile, err)
	}
	return pair, nil
}

var (
	errPassWanted = errors.New("the key is encrypted: set its password (tls-key-file-pass)")
	errPassWrong  = errors.New("the key is encrypted with another password (tls-key-file-pass)")
)

// decrypted returns the PEM of a private key without its password: that of OpenSSL 1.1 and later (PKCS #8, RFC 8018), or
// that of the versions before (RFC 1421).
func decrypted(text []byte, pass string) ([]byte, error) {
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return text, nil // the next reader reports the error
		}
		//lint:ignore SA1019 who has such a file wants it read
		old := x509.IsEncryptedPEMBlock(block)
		switch {
		case !strings.HasSuffix(block.Type, "PRIVATE KEY"):
			continue
		case !old && block.Type != "ENCRYPTED PRIVATE KEY":
			return text, nil
		case pass == "":
			return nil, errPassWanted
		case old:
			//lint:ignore SA1019 see above
			der, err := x509.DecryptPEMBlock(block, []byte(pass))
			if err != nil || !wholeSequence(der) {
				return nil, errPassWrong
			}
			return pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: der}), nil
		}
		key, err := parse(block.Bytes, pass)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errPassWrong, err)
		}
		return encoded(key)
	}
}

// wholeSequence tells whether der is one ASN.1 sequence, as all kinds of private keys are. RFC 1421 has no checksum: only the
// padding shows a wrong password, and one wrong password of 256 leaves a valid padding by chance.
func wholeSequence(der []byte) bool {
	var key asn1.RawValue
	rest, err := asn1.Unmarshal(der, &key)
	return err == nil && len(rest) == 0 && key.Tag == asn1.TagSequence && key.IsCompound
}

// parse reads a key of PKCS #8. The library panics where lengths do not fit, as in a file that was cut.
func parse(der []byte, pass string) (key any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it is damaged: %v", p)
		}
	}()
	return pkcs8.ParsePKCS8PrivateKey(der, []byte(pass))
}

func encoded(key crypto.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
