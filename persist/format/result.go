package format

import "fmt"

// ResultKind says what a write with a producer answered. The numbers are part of the format, and take 3 bits.
type ResultKind uint8

// Kinds of results.
const (
	// ResultNext stands in the log only: an integer, the value in the next record, a KindSet. It is what an INCR
	// answers, and takes no bytes.
	ResultNext ResultKind = 0
	ResultInt  ResultKind = 1 // N, an integer
	ResultOK   ResultKind = 2 // the status OK
	ResultBulk ResultKind = 3 // N in digits, as a bulk string
	ResultNil  ResultKind = 4
	ResultBlob ResultKind = 5 // Blob: anything else; what it holds is whose reply it is to say
	ResultGone ResultKind = 6 // the change was made; what it answered was larger than MaxResult and is not kept

	resultKinds = 7
)

// String returns the kind's name as tools print it.
func (k ResultKind) String() string {
	switch k {
	case ResultNext:
		return "next"
	case ResultInt:
		return "int"
	case ResultOK:
		return "ok"
	case ResultBulk:
		return "bulk"
	case ResultNil:
		return "nil"
	case ResultBlob:
		return "blob"
	case ResultGone:
		return "gone"
	}
	return fmt.Sprintf("result(%d)", uint8(k))
}

// Result is the answer of a numbered change, which is kept so that a repeat of the change gets it again. It is not a reply in
// the bytes of a protocol: the client that repeats may speak another version.
type Result struct {
	Kind ResultKind
	N    uint64 // ResultInt, ResultBulk
	Blob []byte // ResultBlob, at most MaxResult bytes
}
