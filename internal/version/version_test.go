package version

import (
	"runtime/debug"
	"testing"
)

func TestString(t *testing.T) {
	if got := untagged(&debug.BuildInfo{}); got != "0.1.0-dev" {
		t.Errorf("without a repository: %s", got)
	}
	info := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}}}
	if got := untagged(info); got != "0.1.0-dev+0123456789ab.dirty" {
		t.Errorf("with changes: %s", got)
	}
	tag = "1.2.3"
	defer func() { tag = "" }()
	if got := String(); got != "1.2.3" {
		t.Errorf("tagged: %s", got)
	}
}
