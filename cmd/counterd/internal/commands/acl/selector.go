package acl

import (
	"slices"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
)

// selector is a set of commands and of the data that they may use. It is not changed once it is in force.
type selector struct {
	commands    []uint64         // by ID of command.Access
	allCommands bool             // and nothing was refused since
	future      bool             // +@all stands before the rules: those that are yet to come too
	firstArgs   map[int][]string // of commands that are not allowed, by ID: the first arguments that make them so, in lower case
	rules       []string         // the commands allowed and refused besides +@all or -@all, in order: "+get", "-@write"
	patterns    []pattern        // of keys; none if allKeys
	allKeys     bool
	channels    []pattern // none if allChannels
	allChannels bool
}

func newSelector(c *Catalog, allChannels bool) *selector {
	return &selector{commands: make([]uint64, c.size/64+1), allChannels: allChannels}
}

func (s *selector) clone() *selector {
	t := *s
	t.commands, t.rules, t.patterns, t.channels = slices.Clone(s.commands), slices.Clone(s.rules), slices.Clone(s.patterns), slices.Clone(s.channels)
	t.firstArgs = nil
	for id, args := range s.firstArgs {
		t.firstArg(id, args...)
	}
	return &t
}

func (s *selector) firstArg(id int, args ...string) {
	if s.firstArgs == nil {
		s.firstArgs = make(map[int][]string)
	}
	s.firstArgs[id] = append(s.firstArgs[id], args...)
}

// has tells whether the command with that ID is allowed.
func (s *selector) has(id int) bool { return s.commands[id>>6]>>(id&63)&1 != 0 }

// runs tells whether a whole command is allowed, whatever it touches.
func (s *selector) runs(a *command.Access, args [][]byte) bool {
	if s.has(a.ID) {
		return true
	}
	if s.firstArgs == nil || len(args) < 2 {
		return false
	}
	return slices.Contains(s.firstArgs[a.ID], strings.ToLower(string(args[1])))
}

// key tells whether a pattern of keys matches.
func (s *selector) key(key []byte, need command.Need) bool {
	if s.allKeys {
		return true
	}
	for i := range s.patterns {
		if p := &s.patterns[i]; p.need&need == need && p.matches(key) {
			return true
		}
	}
	return false
}

// channel tells whether a channel is allowed, or a pattern of channels: that must be one of the selector's own to the
// letter.
func (s *selector) channel(name []byte, isPattern bool) bool {
	if s.allChannels {
		return true
	}
	for i := range s.channels {
		if p := &s.channels[i]; isPattern && p.text == string(name) || !isPattern && p.matches(name) {
			return true
		}
	}
	return false
}

// set allows a command with all its subcommands, or refuses it.
func (s *selector) set(a *command.Access, yes bool) {
	bit := uint64(1) << (a.ID & 63)
	if yes {
		s.commands[a.ID>>6] |= bit
	} else {
		s.commands[a.ID>>6] &^= bit
		s.allCommands = false
	}
	delete(s.firstArgs, a.ID)
	for _, sub := range a.Sub {
		s.set(sub, yes)
	}
}

// setAll is +@all and -@all.
func (s *selector) setAll(yes bool) {
	for i := range s.commands {
		s.commands[i] = 0
		if yes {
			s.commands[i] = ^uint64(0)
		}
	}
	s.allCommands, s.future, s.rules, s.firstArgs = yes, yes, nil, nil
}

// setCategory allows the commands of a category, or refuses them.
func (s *selector) setCategory(c *Catalog, category string, yes bool) {
	for _, a := range c.all {
		if slices.Contains(a.Categories, "@"+category) {
			s.set(a, yes)
		}
		for _, sub := range a.Sub {
			if slices.Contains(sub.Categories, "@"+category) {
				s.set(sub, yes)
			}
		}
	}
}

// note keeps the text of a rule about commands in the place of those that it makes void: the same, and those of
// subcommands.
func (s *selector) note(sign byte, name string) error {
	s.rules = slices.DeleteFunc(s.rules, func(r string) bool { return r[1:] == name || strings.HasPrefix(r[1:], name+"|") })
	if len(s.rules) >= maxRules {
		return errManyRules
	}
	s.rules = append(s.rules, string(sign)+name)
	return nil
}

// apply changes the selector by one rule.
func (s *selector) apply(c *Catalog, rule string) error {
	lower := strings.ToLower(rule)
	switch lower {
	case "allkeys", "~*":
		s.allKeys, s.patterns = true, nil
		return nil
	case "resetkeys":
		s.allKeys, s.patterns = false, nil
		return nil
	case "allchannels", "&*":
		s.allChannels, s.channels = true, nil
		return nil
	case "resetchannels":
		s.allChannels, s.channels = false, nil
		return nil
	case "allcommands", "+@all":
		s.setAll(true)
		return nil
	case "nocommands", "-@all":
		s.setAll(false)
		return nil
	}
	switch rule[0] {
	case '~', '%':
		return s.addKeys(rule)
	case '&':
		return s.addChannels(rule[1:])
	case '+', '-':
		if strings.HasPrefix(lower[1:], "@") {
			if !command.IsCategory(lower[2:]) {
				return errUnknown
			}
			s.setCategory(c, lower[2:], lower[0] == '+')
			return s.note(lower[0], lower[1:])
		}
		return s.command(c, lower[0], lower[1:])
	}
	return errRule
}

// addKeys is ~pattern and %RW~pattern.
func (s *selector) addKeys(rule string) error {
	if s.allKeys {
		return errAllKeys
	}
	text, need := rule[1:], command.NeedRead|command.NeedWrite
	if rule[0] == '%' {
		var flags string
		var found bool
		if flags, text, found = strings.Cut(text, "~"); !found {
			return errRule
		}
		need = 0
		for _, ch := range strings.ToUpper(flags) {
			n := command.NeedRead
			switch ch {
			case 'R':
			case 'W':
				n = command.NeedWrite
			default:
				return errRule
			}
			if need&n != 0 {
				return errRule
			}
			need |= n
		}
		if need == 0 {
			return errRule
		}
	}
	if badName(text) {
		return errRule
	}
	return addPattern(&s.patterns, text, need)
}

// addChannels is &pattern.
func (s *selector) addChannels(text string) error {
	switch {
	case s.allChannels:
		return errAllChannels
	case badName(text):
		return errRule
	}
	return addPattern(&s.channels, text, 0)
}

// addPattern adds a pattern that may be there already.
func addPattern(to *[]pattern, text string, need command.Need) error {
	if i := slices.IndexFunc(*to, func(p pattern) bool { return p.text == text }); i >= 0 {
		(*to)[i].need |= need
		return nil
	}
	if len(text) > maxPattern {
		return errLongPattern
	}
	if len(*to) >= maxPatterns {
		return errManyPatterns
	}
	*to = append(*to, newPattern(text, need))
	return nil
}

// command is +name, +name|sub, -name and -name|sub.
func (s *selector) command(c *Catalog, sign byte, name string) error {
	if a := c.find(name); a != nil {
		s.set(a, sign == '+')
		return s.note(sign, name)
	}
	first, arg, parted := strings.Cut(name, "|")
	a := c.find(first)
	switch {
	case parted && arg == "":
		return errRule
	case (a == nil || len(a.Sub) > 0) && isForeign(name), a == nil && sign == '+' && isForeign(first) && !isForeign(first+"|help") && !strings.Contains(arg, "|"):
		return s.note(sign, name) // it is not here, so it is neither allowed nor refused
	case a == nil, len(a.Sub) > 0, !parted, sign == '-':
		return errUnknown
	case strings.Contains(arg, "|"):
		return errFirstArg
	}
	if !s.has(a.ID) { // a command without subcommands: with that first argument alone
		s.firstArg(a.ID, arg)
	}
	return s.note(sign, name)
}

// commandRules are the rules of commands, as text.
func (s *selector) commandRules() string {
	start := "-@all"
	if s.future {
		start = "+@all"
	}
	return strings.Join(append([]string{start}, s.rules...), " ")
}

// keyRules are the patterns of keys, as text.
func (s *selector) keyRules() string {
	if s.allKeys {
		return "~*"
	}
	texts := make([]string, len(s.patterns))
	for i, p := range s.patterns {
		switch p.need {
		case command.NeedRead:
			texts[i] = "%R~" + p.text
		case command.NeedWrite:
			texts[i] = "%W~" + p.text
		default:
			texts[i] = "~" + p.text
		}
	}
	return strings.Join(texts, " ")
}

// channelRules are the patterns of channels, as text.
func (s *selector) channelRules() string {
	if s.allChannels {
		return "&*"
	}
	texts := make([]string, len(s.channels))
	for i, p := range s.channels {
		texts[i] = "&" + p.text
	}
	return strings.Join(texts, " ")
}

// String is the text that makes the selector again.
func (s *selector) String() string {
	var parts []string
	if k := s.keyRules(); k != "" {
		parts = append(parts, k)
	}
	if !s.allChannels {
		parts = append(parts, "resetchannels")
	}
	if c := s.channelRules(); c != "" {
		parts = append(parts, c)
	}
	return strings.Join(append(parts, s.commandRules()), " ")
}
