package command

import (
	"fmt"
	"slices"
	"strings"
)

// Argument is one argument of a command as COMMAND DOCS describes it.
type Argument struct {
	Name     string
	Kind     string // key, string, integer, pattern, unix-time; pure-token, oneof, block
	Token    string // word that stands before it, or for it
	Optional bool
	Multiple bool
	Again    bool       // Multiple, and each repetition begins with the token: Redis's flag multiple_token
	Args     []Argument // of oneof and block
}

// ParseSyntax reads the syntax of a row of the command table.
//
//	arguments   = alternative { "|" alternative }
//	alternative = { TOKEN | word | "[" arguments [ "..." ] "]" }
//
// Words in capitals are tokens, and belong to the words that follow them up to the next token or bracket. A group that
// repeats the words before it and ends in "..." says that these can be given again: "key value [key value ...]". Where the
// token before them stands in the group as well, each repetition begins with it: "SET column value [SET column value ...]".
func ParseSyntax(syntax string) ([]Argument, error) {
	p := syntaxParser{words: strings.Fields(strings.NewReplacer("[", " [ ", "]", " ] ").Replace(syntax))}
	args, err := p.arguments()
	if err == nil && len(p.words) > 0 {
		err = fmt.Errorf("command: syntax %q: %q closes nothing", syntax, p.words[0])
	}
	return args, err
}

type syntaxParser struct{ words []string }

func (p *syntaxParser) peek() string {
	if len(p.words) == 0 {
		return ""
	}
	return p.words[0]
}

// arguments reads up to the end or a closing bracket. Alternatives make one argument.
func (p *syntaxParser) arguments() ([]Argument, error) {
	var choices []Argument
	for {
		args, err := p.alternative()
		if err != nil {
			return nil, err
		}
		if p.peek() != "|" {
			if choices == nil {
				return args, nil
			}
			choices = append(choices, group(args))
			return []Argument{{Name: groupName(choices, "choice"), Kind: "oneof", Args: choices}}, nil
		}
		p.words = p.words[1:]
		choices = append(choices, group(args))
	}
}

// alternative reads one sequence of arguments.
func (p *syntaxParser) alternative() ([]Argument, error) {
	var args []Argument
	for {
		switch w := p.peek(); {
		case w == "" || w == "]" || w == "|" || w == "...":
			return args, nil
		case w == "[":
			p.words = p.words[1:]
			inner, err := p.arguments()
			if err != nil {
				return nil, err
			}
			again := p.peek() == "..."
			if again {
				p.words = p.words[1:]
			}
			if again && len(inner) == 0 {
				return nil, fmt.Errorf("command: got nothing before ..., want what can be repeated")
			}
			if p.peek() != "]" {
				return nil, fmt.Errorf("command: got %q, want a closing bracket", p.peek())
			}
			p.words = p.words[1:]
			args = addGroup(args, inner, again)
		case isToken(w):
			p.words = p.words[1:]
			args = append(args, p.token(w))
		default:
			p.words = p.words[1:]
			args = append(args, Argument{Name: w, Kind: kindOf(w)})
		}
	}
}

// token reads the words that belong to a token: none make it an argument of its own, several a block.
func (p *syntaxParser) token(token string) Argument {
	var words []Argument
	for isWord(p.peek()) {
		words = append(words, Argument{Name: p.words[0], Kind: kindOf(p.words[0])})
		p.words = p.words[1:]
	}
	if len(words) == 0 {
		return Argument{Name: strings.ToLower(token), Kind: "pure-token", Token: token}
	}
	a := group(words)
	a.Token = token
	return a
}

// addGroup adds what stood in brackets to the arguments before it. Words behind another token than before are no repetition
// of these: "WHERE column [AND column ...]".
func addGroup(args, inner []Argument, again bool) []Argument {
	if n := len(args) - len(inner); again && n >= 0 && joinNames(args[n:]) == joinNames(inner) && (inner[0].Token == "" || inner[0].Token == args[n].Token) {
		repeated := group(slices.Clone(args[n:]))
		repeated.Multiple, repeated.Again = true, len(inner) == 1 && inner[0].Token != ""
		return append(args[:n], repeated)
	}
	g := group(inner)
	g.Optional = true
	if again {
		g.Multiple, g.Again = true, g.Token != ""
	}
	return append(args, g)
}

// group makes one argument of several.
func group(args []Argument) Argument {
	if len(args) == 1 {
		return args[0]
	}
	return Argument{Name: groupName(args, "arguments"), Kind: "block", Args: args}
}

// groupName is like key_value, and otherwise where that would be long.
func groupName(args []Argument, otherwise string) string {
	if len(args) > 3 {
		return otherwise
	}
	return joinNames(args)
}

func joinNames(args []Argument) string {
	names := make([]string, len(args))
	for i, a := range args {
		names[i] = a.Name
	}
	return strings.Join(names, "_")
}

// isWord tells whether w is the name of an argument.
func isWord(w string) bool { return w != "" && !strings.Contains("[]|...", w) && !isToken(w) }

// isToken tells whether w is to be given as it stands: capitals.
func isToken(w string) bool { return w != "" && w[0] >= 'A' && w[0] <= 'Z' && w == strings.ToUpper(w) }

// kindOf is the type of an argument, by its name.
func kindOf(name string) string {
	switch name {
	case "key", "pattern":
		return name
	case "increment", "decrement", "count", "cursor", "index", "protover", "seconds", "milliseconds", "timeout", "port", "numreplicas", "numlocal",
		"mid", "client-id", "maxage":
		return "integer"
	case "unix-time-seconds", "unix-time-milliseconds":
		return "unix-time"
	}
	return "string"
}
