// Package tlsconf holds the configuration of TLS: certificates, keys, trusted authorities, versions and ciphers. It knows
// nothing of connections.
//
// A Material holds one generation of it. Reload reads the files anew and makes the next; where anything is wrong with
// them the error says what, and the one before stays in force. Who has a *tls.Config of a Material gets the present
// generation with each handshake, so connections that are open, and handshakes under way, go on with what they began
// with.
//
//	Load, Reload ──▶ generation ──▶ Server, Client ──▶ the next handshake
//
// Where it differs from OpenSSL, which redis.conf's words are made for:
//
//   - TLS 1.2 and 1.3 only, and of 1.2 only ciphers with forward secrecy and authenticated encryption, unless others
//     are named.
//   - The three ciphers of 1.3 cannot be parted: a list of some of them is refused.
//   - The server always chooses the cipher, by what the processor is good at.
//   - A resumed session was begun in the same generation, so that a client whose CA is believed no more must show its
//     certificate again.
//
// Links to other nodes check that a certificate was signed by one of the CAs, and not whose name it bears, as in Redis:
// Sentinel knows nodes by their addresses.
//
// # Files
//
//	material.go    Material: what is in force
//	generation.go  one generation, read from files
//	keys.go        private keys, with and without a password
//	speech.go      protocols and ciphers
package tlsconf
