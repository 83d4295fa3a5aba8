package console

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"strings"
	"sync"
)

//go:embed assets/console.html
var consoleHTML string

//go:embed assets/console.css
var consoleCSS string

// The script's parts, in the order in which they are put together.
var (
	//go:embed assets/format.js
	formatJS string
	//go:embed assets/chart.js
	chartJS string
	//go:embed assets/blocks.js
	blocksJS string
	//go:embed assets/console.js
	consoleJS string
)

// document is the page as it is sent, and the policy that fits it. Style and script stand in it, so that it needs no other
// request than those for data, and nothing but they can run: the policy has their hashes. It is made when it is first wanted:
// compression takes 1.2 MB and 3 ms, which a start without a viewer need not spend.
var document = sync.OnceValue(assemble)

type assembled struct {
	body
	policy string
	tag    string // ETag
}

func assemble() *assembled {
	d := new(assembled)
	style := "\n" + consoleCSS
	script := "\n\"use strict\";\n" + formatJS + chartJS + blocksJS + consoleJS
	text := strings.Replace(consoleHTML, "<!--style-->", "<style>"+style+"</style>", 1)
	text = strings.Replace(text, "<!--script-->", "<script>"+script+"</script>", 1)
	d.plain = []byte(text)
	d.gzip = compressed(d.plain)
	d.policy = "default-src 'none'; style-src " + hash(style) + "; script-src " + hash(script) +
		"; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	sum := sha256.Sum256(d.plain)
	d.tag = `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	return d
}

// hash is the hash of an inline part in a content security policy.
func hash(part string) string {
	sum := sha256.Sum256([]byte(part))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
