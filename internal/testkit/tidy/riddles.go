package tidy

import (
	"regexp"
	"strings"
)

// riddle finds clauses whose subject or object is a bare pronoun: "who reads waits", "of what was set", "one that is full". A
// reader has to guess the noun. The words of a question, "says what it wants", are not counted behind most verbs.
var riddle = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`\bwhoever\b`,
	`(?:^|[.;:,(] |\b(?:of|for|by|to|from|with|and|or|but|as|than|tells?|told|in|at|on|like|lets?|makes?|asks?) )who\b`,
	`(?:^|[.;:,(] )what\b`,
	`\b(?:of|for|by|to|from|with|in|at|on|as|than|and|or|but|like|behind|beside|after|before|above|over|between) what\b`,
	`\b(?:is|are|was|were|makes?|has|have|takes?|keeps?|gives?|does|do|be) what\b`,
	`\bwhat (?:is|was|are|were|has|had|that|comes|came|goes|stands|does)\b`,
	`\b(?:one|none) (?:that|who|which)\b`,
	`\b(?:that|those) which\b`,
}, "|"))

// checkRiddles counts them in the comments of each part of the tree, so that files may move between packages of a part.
func checkRiddles(t *Tree, report Report) {
	got := map[string]int{}
	t.Each(func(d *Dir) {
		if d.Path == "internal/testkit/tidy" { // it has to name them
			return
		}
		d.EachFile(func(_ string, f *File) {
			for _, group := range f.Comments {
				text := strings.Join(strings.Fields(group.Text()), " ")
				got[part(d.Path)] += len(riddle.FindAllString(text, -1))
			}
		})
	})
	t.breakers.check(report, "pronouns without a noun in comments (who, what, one that): name the subject", 0, got)
}

// part is the first folder of a path, or the first two below cmd.
func part(path string) string {
	dirs := strings.SplitN(path, "/", 3)
	if dirs[0] == "cmd" && len(dirs) > 1 {
		return dirs[0] + "/" + dirs[1]
	}
	return dirs[0]
}
