// Package version says which version a program is.
package version

import "runtime/debug"

// tag is the output of git describe for the source, without the v. The linker sets it: make build and make dist do.
var tag string

// next is the version that source without a tag becomes.
const next = "0.1.0"

// String is a released version ("0.1.0"), how far the source is behind one ("0.1.0-12-gab12cd3"), or, where there is no
// tag, which commit of the version to come it is ("0.1.0-dev+ab12cd34ef56").
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return describe(tag, info)
}

func describe(tag string, info *debug.BuildInfo) string {
	if tag != "" {
		return tag
	}
	version := next + "-dev"
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			version += "+" + s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			version += ".dirty"
		}
	}
	return version
}
