package resp

import "errors"

// ErrIncomplete is the error of Next when the buffer holds no further complete
// command. It is not a failure: read more and call again.
var ErrIncomplete = errors.New("resp: incomplete command")

// The texts of Redis 7.0, byte for byte, except tooBigRequest: there Redis
// closes the connection without a text.
const (
	invalidMultibulk    = "Protocol error: invalid multibulk length"
	unauthMultibulk     = "Protocol error: unauthenticated multibulk length"
	tooBigMultibulkLine = "Protocol error: too big mbulk count string"
	invalidBulk         = "Protocol error: invalid bulk length"
	unauthBulk          = "Protocol error: unauthenticated bulk length"
	tooBigBulkLine      = "Protocol error: too big bulk count string"
	expectedDollar      = "Protocol error: expected '$', got '"
	tooBigInline        = "Protocol error: too big inline request"
	unbalancedQuotes    = "Protocol error: unbalanced quotes in request"
	tooBigRequest       = "Protocol error: too big request"
)

// A ProtocolError says that the bytes received are no command. The connection
// cannot go on: where the next command begins is unknown.
type ProtocolError struct {
	// Text is the text of the reply after "-ERR ". It has no CR or LF.
	Text string
	// Offset is the position of the offending line or payload, in bytes
	// from the first byte of the connection.
	Offset int64
	// Got is the number that was refused and Limit the most it could have
	// been; both are 0 where the error is not about a limit.
	Got, Limit int64
}

// Error returns Text.
func (e *ProtocolError) Error() string { return e.Text }

// expected is the error for an argument that begins with got instead of '$'. As
// in Redis a line end is shown as a space, since it would end the error reply.
func expected(got byte) string {
	if got == '\r' || got == '\n' {
		got = ' '
	}
	// Not string(got): that would write a byte above 127 as two.
	return expectedDollar + string([]byte{got, '\''})
}
