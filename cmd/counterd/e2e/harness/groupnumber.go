package harness

import (
	"strconv"
)

// Number is the writer's next one.
func (w *RepeatWriter) Number() string {
	w.Seq++
	return strconv.FormatUint(w.Seq, 10)
}
