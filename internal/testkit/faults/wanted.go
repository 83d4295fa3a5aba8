package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// unlisted is the note of a mend of the ledger that planted.tsv does not name: it need not be found.
const unlisted = "planted.tsv does not name it"

// sceneOf is the scene that a fault of the ledger is looked for with, by its subject. All others: none.
var sceneOf = map[string]string{"move": "moves", "feed": "feed", "cold": "decay", "snapshot": "decay", "cluster": "epochs", "start": "decay",
	"log": "decay", "replication": "decay", "sentinel": "sentinel", "memory": "none"}

// wanted are the faults of a list of names, comma-separated: patches of planted.tsv, numbers of the ledger as in 349, and ranges of them as in
// 300-367, of which those count that are not in planted.tsv. Mends without a reversal are left out. A name may have a scene of its own, as in
// 349@flushes.
func wanted(list []Planted, faults []Fault, reversed func(n int) bool, only string) (some []Planted, err error) {
	for _, word := range strings.Split(only, ",") {
		name, scene, own := strings.Cut(word, "@")
		first, last, ranged := strings.Cut(name, "-")
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if i := slices.IndexFunc(list, func(p Planted) bool { return p.Patch == name }); i >= 0 {
			p := list[i]
			if own {
				p.Scene = scene
			}
			some = append(some, p)
			continue
		}
		if ranged = ranged && err == nil && err2 == nil; !ranged {
			to = from
		}
		before := len(some)
		for _, f := range faults {
			listed := slices.ContainsFunc(list, func(p Planted) bool { return p.Patch == strconv.Itoa(f.N) })
			if err != nil || f.N < from || f.N > to || listed || !reversed(f.N) {
				continue
			}
			p := Planted{strconv.Itoa(f.N), sceneOf[f.Subject], unlisted}
			if own {
				p.Scene = scene
			}
			if p.Scene == "" {
				p.Scene = "none"
			}
			some = append(some, p)
		}
		if len(some) == before {
			return nil, fmt.Errorf("no planted fault and no mend with a reversal has the name %q: want one of planted.tsv, or numbers of the ledger as in 349 or 300-367", name)
		}
	}
	return some, nil
}
