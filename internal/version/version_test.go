package version

import (
	"runtime/debug"
	"testing"
)

func TestString(t *testing.T) {
	if got := describe("", &debug.BuildInfo{}); got != "0.1.0-dev" {
		t.Errorf("without a repository: %s", got)
	}
	info := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}}}
	if got := describe("", info); got != "0.1.0-dev+0123456789ab.dirty" {
		t.Errorf("with changes: %s", got)
	}
	if got := describe("1.2.3", info); got != "1.2.3" {
		t.Errorf("tagged: %s", got)
	}
}
