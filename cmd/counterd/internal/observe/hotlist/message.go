package hotlist

import (
	"strconv"

	"github.com/counterd/counterd/counter"
)

// appendMessage appends a message as a JSON object:
//
//	{"whole":true,"entered":[[mid,value],...],"left":[mid,...]}
//
// whole says that the list consists of the posts of entered, so a client forgets its earlier posts. entered has the posts with the largest values
// first, left has mids in rising order. Each has as many elements as the list at most. Numbers may need 63 bits.
func appendMessage(dst []byte, whole bool, entered []counter.TopEntry, left []uint64) []byte {
	dst = append(dst, `{"whole":`...)
	dst = strconv.AppendBool(dst, whole)
	dst = append(dst, `,"entered":[`...)
	for i, e := range entered {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '[')
		dst = strconv.AppendUint(dst, e.Mid, 10)
		dst = append(dst, ',')
		dst = strconv.AppendUint(dst, e.Value, 10)
		dst = append(dst, ']')
	}
	dst = append(dst, `],"left":[`...)
	for i, mid := range left {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, mid, 10)
	}
	return append(dst, "]}"...)
}
