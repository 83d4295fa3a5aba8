package route

import (
	"bytes"
	"strconv"

	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/schema"
)

// Plain tells whether a key, if it names a post at all, is hashed by clients as its mid: the slot of the key is that of
// the post. It is for the way of every command, and false for some that are (see Hashed).
func Plain(key []byte) bool {
	if len(key) < 2 {
		return len(key) == 1 && isDigit(key[0])
	}
	switch first := key[0]; {
	case first == '{':
		return key[1]-'1' <= 8 // a number in braces: else it names no post
	case first-'1' <= 8:
		return isDigit(key[len(key)-1]) && bytes.IndexByte(key, '.') < 0
	case first > ':': // NAME:{MID}
		i := bytes.IndexByte(key, '{')
		return i > 0 && key[i-1] == ':' && i+1 < len(key) && key[i+1]-'1' <= 8
	}
	return false
}

func isDigit(b byte) bool { return b-'0' <= 9 }

// Hashed tells whether a key that names the post with that mid is hashed by clients as the mid.
func Hashed(key []byte, mid uint64) bool {
	var digits [20]byte
	return bytes.Equal(tag(key), strconv.AppendUint(digits[:0], mid, 10))
}

// tag is what of a key is hashed: see slot.OfKey.
func tag(key []byte) []byte {
	if i := bytes.IndexByte(key, '{'); i >= 0 {
		if n := bytes.IndexByte(key[i+1:], '}'); n > 0 {
			return key[i+1 : i+1+n]
		}
	}
	return key
}

// Refusal is the error for a key that names a post and that clients look for elsewhere than the post is; empty: it is
// none of these.
func Refusal(s *schema.Schema, key []byte) string {
	k, ok := s.ParseKey(key)
	if !ok || Hashed(key, k.Mid) {
		return ""
	}
	return "ERR clients of a cluster hash '" + resp.Printable(key, 128) + "' as it stands, and its post is kept by its mid: write " +
		string(s.AppendTagged(nil, k.Counter, k.Col, k.Mid))
}
