package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNotices: the licences of Go and of all modules in the programs are there, each once; a module without one is an error.
func TestNotices(t *testing.T) {
	modules, err := built([]string{"../../cmd/counterd", "../../cmd/counterctl", "../../cmd/counterbench"})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := write(&out, modules); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{"\nGo 1.", "\ngithub.com/spf13/pflag v", "\ngo.etcd.io/etcd/client/v3 v", "Redistribution and use", "Apache License"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	if n := strings.Count(text, "\ngithub.com/spf13/pflag v"); n != 1 {
		t.Errorf("pflag is there %d times", n)
	}
	if strings.Contains(text, "github.com/counterd/") {
		t.Error("the project itself is among them")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "license.go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(&out, []module{{"none v1", dir}}); err == nil || !strings.Contains(err.Error(), "none v1: no licence") {
		t.Errorf("a module without a licence: %v", err)
	}
}
