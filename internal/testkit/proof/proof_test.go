// Scenario: a search over small packages of its own, which is interrupted, resumed and finds a failure.

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/seed"
)

func TestPlanIsFair(t *testing.T) {
	rng := seed.Rand(t)
	list := []Step{{Name: "a", Share: 1, Round: time.Second}, {Name: "b", Share: 3, Round: time.Second}, {Name: "long", Share: 10, Round: time.Hour},
		{Name: "once", Share: 9, Round: time.Second, Once: true}}
	p := newPlan(list, nil)
	for range 2000 {
		s, ok := p.next(30 * time.Minute)
		if !ok || s.Name == "long" {
			t.Fatalf("next: %q, %v", s.Name, ok)
		}
		p.finish(s, p.expected(s), Round{Step: s.Name, Took: time.Duration(1 + rng.IntN(1e9))})
	}
	if ratio := float64(p.spent["b"]) / float64(p.spent["a"]); ratio < 2.9 || ratio > 3.1 {
		t.Errorf("b has %.2f times the time of a, want 3", ratio)
	}
	if got := p.spent["once"]; got == 0 || got > time.Second {
		t.Errorf("the step that draws nothing had %v, want one round", got)
	}
	if _, ok := p.next(0); ok {
		t.Error("a round begins behind the end of the time")
	}
	if s, ok := p.next(2 * time.Hour); !ok || s.Name != "long" {
		t.Errorf("with two hours left: %q, want the step that has had no time", s.Name)
	}
	order := newPlan([]Step{{Name: "fuzz", Share: 1, Round: time.Second, Fuzz: true}, {Name: "long", Share: 9, Round: time.Hour}, {Name: "short", Share: 1, Round: time.Minute}}, nil)
	for _, want := range []string{"short", "long", "fuzz"} {
		if s, _ := order.next(2 * time.Hour); s.Name != want {
			t.Errorf("%q begins, want %q", s.Name, want)
		}
	}
	if why := (Step{Needs: []string{"no-such-program"}}).missing(); why != "no-such-program is not installed" {
		t.Errorf("missing: %q", why)
	}
}

func TestJournalResumes(t *testing.T) {
	folder := t.TempDir()
	header := Header{Commit: "abc", Go: "go", Machine: "m", Began: time.Unix(5, 0).UTC()}
	for want := range 3 {
		j, err := openJournal(folder, header)
		if err != nil {
			t.Fatal(err)
		}
		if got := j.Rounds(); len(got) != want || (want > 0 && got[want-1].Seed != uint64(want)) {
			t.Errorf("%d rounds: %+v", want, got)
		}
		if err := j.Add(Round{Step: "s", Seed: uint64(want + 1)}); err != nil {
			t.Fatal(err)
		}
		j.Close()
		// A run that is killed leaves a line without its end.
		f, err := os.OpenFile(filepath.Join(folder, "journal.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		f.WriteString(`{"step":"hal`)
		f.Close()
	}
	header.Commit = "def"
	var other *OtherCommitError
	if _, err := openJournal(folder, header); !errors.As(err, &other) || other.Got != "abc" {
		t.Errorf("another commit: %v", err)
	}
}

// TestFitted: rounds of a length that is told are as long as the time allows, and other steps stay as they are.
func TestFitted(t *testing.T) {
	list := []Step{{Name: "a", Share: 3, Round: time.Minute}, {Name: "soak", Share: 1, Round: time.Hour, Least: time.Minute, Flags: []string{"-soak", length}}}
	for total, want := range map[time.Duration]time.Duration{time.Second: time.Minute, 40 * time.Minute: 10 * time.Minute, 24 * time.Hour: time.Hour} {
		got := fitted(list, total)
		if flag := (want * 9 / 10).String(); got[1].Round != want || got[1].Flags[1] != flag || got[0].Round != time.Minute {
			t.Errorf("in %v: %+v, want rounds of %v and the flag %s", total, got, want, flag)
		}
	}
	if list[1].Flags[1] != length {
		t.Error("the steps themselves were changed")
	}
}

// testPackage writes a module with a test, and returns its folder.
func testPackage(t *testing.T, test string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"go.mod": "module m\n\ngo 1.26\n", "m_test.go": test} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRound(t *testing.T) {
	root := testPackage(t, `package m
import ("flag"; "testing")
var n = flag.Uint64("seed", 1, "the seed")
func TestGood(t *testing.T) { t.Logf("%d crash points", 7); t.Logf("%d crash points", 5) }
func TestBad(t *testing.T) { t.Fatalf("replay with -seed %d", *n) }
`)
	t.Setenv("COUNTERD_PROGRAMS", "") // newBinaries sets it for the steps
	r := &runner{options: options{folder: t.TempDir()}, root: root}
	good := Step{Name: "good", Package: ".", Run: "^TestGood$", Count: `(\d+) crash points`, Unit: "crash points", Share: 1}
	bad := Step{Name: "bad", Package: ".", Run: "^TestBad$", Unit: "runs", Share: 1}
	header := Header{Commit: "abc", LeftOut: []string{"rooted: this user is not root"}}
	var err error
	if r.journal, err = openJournal(r.folder, header); err != nil {
		t.Fatal(err)
	}
	defer r.journal.Close()
	if r.binaries, err = newBinaries(root, r.folder, r.journal); err != nil {
		t.Fatal(err)
	}
	var binary string
	for range 2 { // the second time it is there
		var seeded bool
		if binary, seeded, err = r.binaries.of(context.Background(), good); err != nil || !seeded {
			t.Fatalf("compile: seeded %v, %v", seeded, err)
		}
	}
	if rounds := r.journal.Rounds(); len(rounds) != 1 || rounds[0].Step != compiling {
		t.Errorf("compiled once, and the journal has %+v", rounds)
	}
	one, _, err := good.runRound(context.Background(), root, binary, hasSeedFlag(binary), 3)
	if err != nil || one.Failed || one.Counted != 12 || one.Seed != 3 || one.Took <= 0 {
		t.Errorf("a good round: %+v, %v", one, err)
	}
	two, output, err := bad.runRound(context.Background(), root, binary, hasSeedFlag(binary), 4)
	if err != nil || !two.Failed || !strings.Contains(strings.Join(two.Replay, "\n"), "-seed 4") || !strings.Contains(string(output), "-seed 4") {
		t.Errorf("a bad round: %+v, %v\n%s", two, err, output)
	}
	if _, _, err := good.runRound(context.Background(), root, binary+"none", false, 4); err == nil {
		t.Error("a binary that is not there is no finding and no error")
	}
	one.LeftOut = []string{"TestX: no etcd"}
	n, err := writePages(r.folder, header, []Step{good, bad, {Name: "late"}, {Name: "rooted"}}, append(r.journal.Rounds(), one, two))
	if n != 1 || err != nil {
		t.Errorf("%d findings, %v", n, err)
	}
	for _, name := range []string{"proof.md", "proof.html"} {
		content, err := os.ReadFile(filepath.Join(r.folder, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"12 crash points", "1 failures", "seed 4", "findings/bad-4.txt", "rooted: this user is not root", "TestX: no etcd", "of: late", "1 binaries"} {
			if !strings.Contains(string(content), want) {
				t.Errorf("no %q in\n%s", want, content)
			}
		}
	}
}

// The steps name tests that exist: a pattern that matches nothing would pass for ever.
func TestStepsExist(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	all, err := allSteps(root)
	if err != nil {
		t.Fatal(err)
	}
	fuzz := 0
	for _, s := range all {
		if s.Fuzz {
			fuzz++
			continue
		}
		files, err := filepath.Glob(filepath.Join(root, s.Package, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var tests strings.Builder
		for _, f := range files {
			content, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			tests.Write(content)
		}
		for name := range strings.FieldsFuncSeq(s.Run, func(r rune) bool { return strings.ContainsRune("^()|$", r) }) {
			if !strings.Contains(tests.String(), "func "+name) && !strings.Contains(tests.String(), name) {
				t.Errorf("step %s: no test in %s is called %s", s.Name, s.Package, name)
			}
		}
		if s.What == "" || s.Share <= 0 || s.Round <= 0 {
			t.Errorf("step %s lacks its sentence, share or length: %+v", s.Name, s)
		}
	}
	if fuzz < 40 {
		t.Errorf("%d fuzz targets, want at least 40", fuzz)
	}
	if _, _, err := choose(all, "log-crash,nothing"); err == nil {
		t.Error("a step that does not exist was chosen")
	}
}
