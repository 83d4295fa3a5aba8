package wire

import (
	"errors"
	"fmt"
	"strings"
)

// authenticate gives the password to the server, with a user's name where there is one.
func (c *Conn) authenticate(user, password string) error {
	words := []string{"AUTH", user, password}
	if user == "" {
		words = []string{"AUTH", password}
	}
	_, err := c.Do(words...)
	return hide(err, user, password)
}

// hide takes the words of AUTH out of an answer to it, for errors are logged: a server that has renamed AUTH answers
// with the arguments of the command that it does not know.
func hide(err error, user, password string) error {
	var failed *ServerError
	if !errors.As(err, &failed) {
		return err
	}
	text := strings.ReplaceAll(failed.Text, password, "(redacted)") // first: the user's name may be a part of it
	if user != "" {
		text = strings.ReplaceAll(text, user, "(redacted)")
	}
	return fmt.Errorf("AUTH: %w", &ServerError{text})
}
