package items

import "strings"

// ExecAborted is the reply to an EXEC that was refused with text.
func ExecAborted(text string) string {
	return "EXECABORT Transaction discarded because of: " + strings.TrimPrefix(text, "ERR ")
}

// ErrOwning refuses a command for groups of hash slots that are not just the shard's.
const ErrOwning = "TRYAGAIN The shard no longer owns these posts"
