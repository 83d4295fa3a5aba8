package main

import (
	"regexp"
	"strings"
)

// reasons tell from the message of a failed test why it cannot pass. Each is an answer of counterd that its documentation promises.
var reasons = []struct {
	said *regexp.Regexp
	why  string
}{
	{regexp.MustCompile(`(?i)n command '([A-Za-z._-]+)`), "needs the command $1, which counterd does not have"},
	{regexp.MustCompile(`(?i)n subcommand '([A-Za-z._-]+)`), "needs the subcommand $1, which counterd does not have"},
	{regexp.MustCompile(`ent or decrement would overflow`), "counts below 0, where a counter ends"},
	{regexp.MustCompile(`(?i)rs? (?:do|does) not expire`), "gives a key a time to live; counters do not expire"},
	{regexp.MustCompile(`WRONGTYPE|^Operation against a key holding the wrong`), "keeps fields of its own in a hash; fields of counterd are columns of the schema"},
	{regexp.MustCompile(`n option or number of arguments for CONFIG SET - '([a-z-]+)`), "needs the setting $1, which counterd does not have"},
	{regexp.MustCompile(`imes are not tracked`), "reads the time of the last access, which counterd does not keep"},
	{regexp.MustCompile(`\(usage: `), "the error ends with the usage of the command, which the test does not expect"},
	{regexp.MustCompile(`(?i)DB index is out of range`), "uses a second database"},
}

// upper writes names of commands as this project does; settings stay in lower case.
func upper(name string) string {
	if strings.Contains(name, "-") && name == strings.ToLower(name) {
		return name
	}
	return strings.ToUpper(name)
}

// reason is why a test failed, or its message behind a question mark: a person must look.
func reason(said string) string {
	for _, r := range reasons {
		if m := r.said.FindStringSubmatch(said); m != nil {
			why := r.why
			if len(m) > 1 {
				why = strings.ReplaceAll(why, "$1", upper(m[1]))
			}
			return why
		}
	}
	said = oneLine(said)
	return "? " + said[:min(len(said), 400)]
}
