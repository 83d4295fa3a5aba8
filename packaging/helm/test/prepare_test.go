package helmtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// redisCLI stands in for redis-cli: $ANSWERS has a file for each host, named HOST.COMMAND. A host without one does not answer.
const redisCLI = `#!/bin/sh
while [ $# -gt 0 ]; do
	case $1 in -h) host=$2; shift 2 ;; -p) shift 2 ;; *) break ;; esac
done
[ -e "$ANSWERS/$host.$1" ] || exit 1
cat "$ANSWERS/$host.$1"
`

// TestPrepare: whom a node of mode replication follows when it starts. a is the first node; s is Sentinel.
func TestPrepare(t *testing.T) {
	for _, c := range []struct {
		name, self, answers string
		data                bool
		follows, fails      string
	}{
		{name: "the first start of the first node", self: "a"},
		{name: "the first start of another node", self: "b", follows: "a"},
		{name: "the first node starts late: replicas without data wait for it", self: "a", answers: "b.role=slave b.dbsize=0 c.role=slave c.dbsize=0"},
		{name: "a node with data keeps its role", self: "b", data: true, answers: "a.role=master"},
		{name: "the first node lost its data after a failover", self: "a", answers: "b.role=slave b.dbsize=7 c.role=master", follows: "c"},
		{name: "the first node lost its data, and nobody leads", self: "a", answers: "b.role=slave b.dbsize=7", fails: "REPLICAOF NO ONE"},
		{name: "a new node after a failover", self: "d", answers: "a.role=slave a.dbsize=7 c.role=master", follows: "c"},
		{name: "Sentinel names another node than the one that led", self: "a", data: true, answers: "s.sentinel=c", follows: "c"},
		{name: "Sentinel names this node", self: "c", data: true, answers: "s.sentinel=c a.role=master"},
		{name: "Sentinel does not know yet", self: "b", answers: "s.sentinel=ERR~No~such~master~with~that~name", follows: "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, sub := range []string{"bin", "answers", "conf", "run", "data"} {
				if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			put(t, filepath.Join(dir, "bin"), "redis-cli", redisCLI)
			if err := os.Chmod(filepath.Join(dir, "bin/redis-cli"), 0o700); err != nil {
				t.Fatal(err)
			}
			for _, answer := range strings.Fields(c.answers) {
				file, text, _ := strings.Cut(answer, "=")
				put(t, filepath.Join(dir, "answers"), file, strings.ReplaceAll(text, "~", " ")+"\nmore\n")
				if strings.HasSuffix(file, ".dbsize") {
					put(t, filepath.Join(dir, "answers"), file, text+"\n")
				}
			}
			put(t, filepath.Join(dir, "conf"), "counterd.conf", "port 6379\n")
			if c.data {
				put(t, filepath.Join(dir, "data"), "node.json", "{}")
			}
			run := exec.Command("sh", filepath.Join(chartDir, "files/prepare.sh"))
			run.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "ANSWERS="+filepath.Join(dir, "answers"), "CONF="+filepath.Join(dir, "conf"),
				"RUN="+filepath.Join(dir, "run"), "DATA="+filepath.Join(dir, "data"), "SELF="+c.self, "FIRST=a", "PEERS=a b c d", "PORT=6379", "SENTINEL=s", "SENTINEL_NAME=posts")
			out, err := run.CombinedOutput()
			if c.fails != "" {
				if err == nil || !strings.Contains(string(out), c.fails) {
					t.Errorf("got %v, want a refusal with %q\n%s", err, c.fails, out)
				}
				return
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			want := "port 6379\n"
			if c.follows != "" {
				want += "replicaof " + c.follows + " 6379\n"
			}
			got, err := os.ReadFile(filepath.Join(dir, "run/counterd.conf"))
			if err != nil || string(got) != want {
				t.Errorf("got %q, %v, want %q\n%s", got, err, want, out)
			}
		})
	}
}
