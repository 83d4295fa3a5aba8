package server

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/internal/errclass"
)

// errorLiteral is a text in the source that an error reply begins with.
type errorLiteral struct {
	where string
	text  string // up to the first verb
}

// noErrors are texts that begin like one.
var noErrors = []string{"TCP port for TLS alone, on the same addresses, 0 for none; --port 0 leaves only this one", "PRIVATE KEY", "ENCRYPTED PRIVATE KEY",
	"HTTPS there, with the certificate of tls-cert-file; tls-auth-clients says who must show one", "TCP port for reads only, on the same addresses, 0 for none", "RETURNING NEW", "RETURNING OLD: DEL leaves nothing",
	"FROM position [COUNT count] [BLOCK milliseconds] [SAFE replicas] [COUNTERS counter [counter ...]] [COLUMNS column [column ...]] [MID operator mid [AND MID operator mid ...]] [LATEST] [WITH OLD]",
	"LIMIT with RETURNING", "OLD or NEW", "FULLRESYNC %s %d", "HTTP request refused, connection closed", "TCP port, 0 for none", "YES | NO",
	"COUNTER counter | COLUMN counter name", "COUNTER counter [ids=layout|none] [retain=time|off] [old=on|off] | COLUMN counter name top=n|off",
	"COUNTER counter [ids=layout] [retain=time] [old=on|off] | COLUMN counter name hint=bits [max=bits] [default=value] [suffix=suffix] [top=n] [primarykey] | COLUMN counter name window=length/bucket of=column [suffix=suffix] [top=n] | COLUMN counter name decay=halflife of=column[*weight][+column[*weight]...] [suffix=suffix] [top=n]"}

// errorLiterals finds in the production code of the server and of what is beside it all texts of error replies: those
// that begin with a word of package errclass. A text that begins with another word in capitals, and is no name of a
// command, is a fault: either it is an error without a class, or it reads like one.
func errorLiterals(t *testing.T) (found []errorLiteral) {
	t.Helper()
	like := regexp.MustCompile(`^-?([A-Z]{3,})( |$)`)
	commands := command.NewTable(allRows())
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "testkit":
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			m := like.FindStringSubmatch(text)
			if m == nil {
				return true
			}
			where := fmt.Sprint(set.Position(lit.Pos()))
			text = strings.TrimSuffix(strings.TrimPrefix(text, "-"), "\r\n")
			if _, classed := errclass.Of(text); classed {
				begin, _, _ := strings.Cut(text, "%")
				found = append(found, errorLiteral{where, begin})
			} else if m[2] != "" && m[1] != "TCP" && m[1] != "TLS" && commands.Find([]byte(m[1])) == nil && !slices.Contains(noErrors, text) {
				t.Errorf("%s: %q begins like the code of an error, but package errclass has no class for it", where, text)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
