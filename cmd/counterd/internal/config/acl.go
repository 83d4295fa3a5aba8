package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/counterd/counterd/cmd/internal/secretfile"
)

// ACL is the part of the configuration about users and their rights. Package acl knows the meaning of users' rules.
type ACL struct {
	ACLFile          string   // of users, empty = none
	Users            []string // "name rules", as lines of the configuration file; not both
	ACLLogMaxLen     int      // refusals that ACL LOG keeps
	ACLPubsubDefault string   // the channels that new users may use: AllChannels or NoChannels
	DisableCommand   []string // that are not there: "flushall", "config|set"
	RequirePassFile  string   // RequirePass stands in this file, empty = it does not
	MasterAuthFile   string   // the same of MasterAuth
}

// The values of ACLPubsubDefault.
const (
	AllChannels = "allchannels"
	NoChannels  = "resetchannels"
)

func defaultACL() ACL { return ACL{ACLLogMaxLen: 128, ACLPubsubDefault: NoChannels} }

// ACLPath is the path of the aclfile: a relative one is relative to the data directory, as in Redis. Empty: there is none.
func (c *Config) ACLPath() string {
	if c.ACLFile == "" || filepath.IsAbs(c.ACLFile) {
		return c.ACLFile
	}
	return filepath.Join(c.Dir, c.ACLFile)
}

func (a *ACL) validate(errs *[]error) {
	if a.ACLFile != "" && len(a.Users) > 0 {
		*errs = append(*errs, errors.New("aclfile and user: got both, want one: define users in aclfile or in user lines of the configuration file"))
	}
}

// ReadSecrets reads the passwords that stand in files of their own.
func (c *Config) ReadSecrets() error {
	for _, f := range []struct {
		name, path string
		to         *string
	}{{"requirepass", c.RequirePassFile, &c.RequirePass}, {"masterauth", c.MasterAuthFile, &c.MasterAuth}} {
		if f.path == "" {
			continue
		}
		if *f.to != "" {
			return fmt.Errorf("%s and %s-file: got both, want one", f.name, f.name)
		}
		data, err := secretfile.Read(f.path)
		if err != nil {
			return fmt.Errorf("%s-file: %w", f.name, err)
		}
		if *f.to = strings.TrimRight(string(data), "\r\n"); *f.to == "" {
			return fmt.Errorf("%s-file: %s is empty, want a password", f.name, f.path)
		}
	}
	return nil
}

// renamed reads what rename-command says: with an empty name it is disable-command.
func renamed(value string) (disabled string, err error) {
	name, to, found := strings.Cut(value, " ")
	switch {
	case !found || name == "":
		return "", fmt.Errorf(`got %q, want a command and ""`, value)
	case to != "":
		return "", fmt.Errorf(`%s cannot be given another name: want rename-command %s "", which disables it, or users whose rules forbid it (user, aclfile)`, name, name)
	}
	return name, nil
}
