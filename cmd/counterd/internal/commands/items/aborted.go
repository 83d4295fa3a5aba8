package items

import "strings"

// ExecAborted is the reply to an EXEC that was refused with text.
func ExecAborted(text string) string {
	return "EXECABORT Transaction discarded because of: " + strings.TrimPrefix(text, "ERR ")
}
