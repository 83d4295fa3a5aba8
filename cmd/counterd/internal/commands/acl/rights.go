package acl

//lint:file-ignore ST1005 the errors are Redis's words

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Limits of one user, which bound memory and time: each selector and pattern is looked at before each command in the
// worst case.
const (
	maxPasswords    = 256
	maxPasswordSize = 4096 // bytes: hashing them takes 10 us
	maxSelectors    = 64
	maxPatterns     = 1024 // of keys, and of channels, in a selector
	maxRules        = 4096 // of commands, in a selector
)

// Why a rule is refused, in Redis's words where it has some.
var (
	errUnknown     = errors.New("Unknown command or category name in ACL")
	errRule        = errors.New("Syntax error")
	errAllKeys     = errors.New("Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns")
	errAllChannels = errors.New("Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels")
	errNoPassword  = errors.New("The password you are trying to remove from the user does not exist")
	errHash        = errors.New("The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters")
	errFirstArg    = errors.New("Allowing first-arg of a subcommand is not supported")

	errBracket       = errors.New("A rule in a selector cannot end with )")
	errLongPattern   = fmt.Errorf("A pattern has at most %d bytes", maxPattern)
	errManyPatterns  = fmt.Errorf("A user has at most %d patterns of a kind", maxPatterns)
	errManyRules     = fmt.Errorf("A user has at most %d rules of commands", maxRules)
	errManySelectors = fmt.Errorf("A user has at most %d selectors", maxSelectors)
	errManyPasswords = fmt.Errorf("A user has at most %d passwords", maxPasswords)
	errLongPassword  = fmt.Errorf("A password has at most %d bytes", maxPasswordSize)
)

// hash is the SHA-256 of a password.
type hash [sha256.Size]byte

// Rights are the rights of a user, and its passwords. They do not change once they are in force.
type Rights struct {
	unlimited bool // one selector allows everything: the first question before each command
	on        bool
	nopass    bool // every password is right
	lax       bool // skip-sanitize-payload: of Redis, and means nothing here
	passwords []hash
	selectors []*selector // the first is the user's own; none: a user that was removed
}

// newRights are those of a new user: none.
func newRights(c *Catalog, allChannels bool) *Rights {
	return &Rights{selectors: []*selector{newSelector(c, allChannels)}}
}

func (r *Rights) clone() *Rights {
	t := *r
	t.passwords, t.selectors = slices.Clone(r.passwords), make([]*selector, len(r.selectors))
	for i, s := range r.selectors {
		t.selectors[i] = s.clone()
	}
	return &t
}

// seal readies the rights to be put in force.
func (r *Rights) seal() *Rights {
	r.unlimited = slices.ContainsFunc(r.selectors, func(s *selector) bool { return s.allCommands && s.allKeys && s.allChannels })
	return r
}

// apply changes the rights by one rule.
func (r *Rights) apply(c *Catalog, rule string, allChannels bool) error {
	switch strings.ToLower(rule) {
	case "":
	case "on":
		r.on = true
	case "off":
		r.on = false
	case "sanitize-payload":
		r.lax = false
	case "skip-sanitize-payload":
		r.lax = true
	case "nopass":
		r.nopass, r.passwords = true, nil
	case "resetpass":
		r.nopass, r.passwords = false, nil
	case "clearselectors":
		r.selectors = r.selectors[:1]
	case "reset":
		*r = *newRights(c, allChannels)
	default:
		switch {
		case strings.IndexByte("><#!", rule[0]) >= 0:
			return r.password(rule)
		case rule[0] == '(' && rule[len(rule)-1] == ')':
			return r.selector(c, rule[1:len(rule)-1], allChannels)
		}
		return r.selectors[0].apply(c, rule)
	}
	return nil
}

// password is >password, <password, #hash and !hash.
func (r *Rights) password(rule string) error {
	var h hash
	if text := rule[1:]; rule[0] == '>' || rule[0] == '<' {
		if len(text) > maxPasswordSize {
			return errLongPassword
		}
		h = sha256.Sum256([]byte(text))
	} else if n, err := hex.Decode(h[:], []byte(text[:min(len(text), 2*len(h))])); err != nil || n != len(h) || len(text) != 2*len(h) || strings.ToLower(text) != text {
		return errHash
	}
	i := slices.Index(r.passwords, h)
	switch add := rule[0] == '>' || rule[0] == '#'; {
	case !add && i < 0:
		return errNoPassword
	case !add:
		r.passwords = slices.Delete(r.passwords, i, i+1)
	case i < 0 && len(r.passwords) >= maxPasswords:
		return errManyPasswords
	case i < 0:
		r.passwords = append(r.passwords, h)
	}
	if rule[0] == '>' || rule[0] == '#' {
		r.nopass = false
	}
	return nil
}

// selector is a rule in ( ): a selector of its own.
func (r *Rights) selector(c *Catalog, rules string, allChannels bool) error {
	if len(r.selectors) > maxSelectors {
		return errManySelectors
	}
	s := newSelector(c, allChannels)
	for rule := range strings.FieldsSeq(rules) {
		if strings.HasSuffix(rule, ")") { // written down it would end the selector
			return errBracket
		}
		if err := s.apply(c, rule); err != nil {
			return err
		}
	}
	r.selectors = append(r.selectors, s)
	return nil
}

// Flags are on or off, and further flags, in Redis's words.
func (r *Rights) Flags() []string {
	flags := []string{"off"}
	if r.on {
		flags[0] = "on"
	}
	if r.nopass {
		flags = append(flags, "nopass")
	}
	if r.lax {
		return append(flags, "skip-sanitize-payload")
	}
	return append(flags, "sanitize-payload")
}

// Hashes are those of the passwords, as text.
func (r *Rights) Hashes() []string {
	texts := make([]string, len(r.passwords))
	for i, h := range r.passwords {
		texts[i] = hex.EncodeToString(h[:])
	}
	return texts
}

// Part is the rights of one selector, as ACL GETUSER shows them.
type Part struct{ Commands, Keys, Channels string }

// Parts are the selectors; the first is the user's own.
func (r *Rights) Parts() []Part {
	parts := make([]Part, len(r.selectors))
	for i, s := range r.selectors {
		parts[i] = Part{s.commandRules(), s.keyRules(), s.channelRules()}
	}
	return parts
}

// String is the text of rules that makes the rights again, of a new user.
func (r *Rights) String() string {
	parts := r.Flags()
	for _, h := range r.Hashes() {
		parts = append(parts, "#"+h)
	}
	for i, s := range r.selectors {
		if text := s.String(); i == 0 {
			parts = append(parts, text)
		} else {
			parts = append(parts, "("+text+")")
		}
	}
	return strings.Join(parts, " ")
}

// merge puts the words of each selector together: "(+get", "~a)" is one rule. open is the word that is not closed.
func merge(words []string) (rules []string, open string) {
	begin := -1
	for i, w := range words {
		switch {
		case begin < 0 && strings.HasPrefix(w, "(") && !strings.HasSuffix(w, ")"):
			begin = i
		case begin < 0:
			rules = append(rules, w)
		case strings.HasSuffix(w, ")"):
			rules = append(rules, strings.Join(words[begin:i+1], " "))
			begin = -1
		}
	}
	if begin >= 0 {
		return nil, words[begin]
	}
	return rules, ""
}

// shown is a rule as an error text and a log may show it: without a rule that may be, or was meant as, a password.
func shown(rule string) string {
	if strings.HasPrefix(rule, "(") {
		words := strings.Fields(rule[1:min(len(rule), 128)])
		for i, w := range words {
			if w != ")" {
				words[i] = shown(w)
			}
		}
		return "(" + strings.Join(words, " ")
	}
	if rule != "" && strings.IndexByte("+-~%&(", rule[0]) < 0 {
		return rule[:1] + "..."
	}
	return rule[:min(len(rule), 128)]
}
