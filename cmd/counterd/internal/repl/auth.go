package repl

import (
	"errors"
	"strings"
)

// authWords is the command that gives the password to another node. REQUIRES MasterAuth.
func (c Settings) authWords() []string {
	if c.MasterUser != "" {
		return []string{"AUTH", c.MasterUser, c.MasterAuth}
	}
	return []string{"AUTH", c.MasterAuth}
}

// hide takes the password out of an answer to AUTH, for errors are logged: a server that has renamed AUTH answers with the arguments of the command that
// it does not know.
func (c Settings) hide(err error) error {
	var refused *ReplyError
	if !errors.As(err, &refused) {
		return err
	}
	text := strings.ReplaceAll(refused.Text, c.MasterAuth, "(redacted)")
	if c.MasterUser != "" {
		text = strings.ReplaceAll(text, c.MasterUser, "(redacted)")
	}
	return &ReplyError{Text: text}
}
