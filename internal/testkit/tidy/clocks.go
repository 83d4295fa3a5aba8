package tidy

import (
	"regexp"
	"strings"
)

// wallAge finds moments that are kept as numbers of the wall clock.
var wallAge = regexp.MustCompile(`time\.Now\(\)\.Unix(Nano|Micro)\(\)|time\.Unix\(0,|time\.UnixMicro\(`)

// checkClocks: ages are measured by the monotonic clock. A time that is stored as nanoseconds of Unix time has lost its monotonic
// reading, so an age computed from it jumps when the wall clock is set; package monotonic keeps such moments. Code of tests and
// INFO's server_time_usec, which is the wall clock's, may use it.
func checkClocks(t *Tree, report Report) {
	t.Each(func(d *Dir) {
		if isTestkit(d.Path) || within(d.Path, "bench") || within(d.Path, "cmd/counterd/e2e") {
			return
		}
		d.EachFile(func(_ string, f *File) {
			if f.Test {
				return
			}
			for line := range strings.Lines(f.Text) {
				if wallAge.MatchString(line) && !strings.Contains(line, `Info: "server_time_usec"`) {
					report("%s: %s: a moment for an age is a monotonic.Moment: the wall clock may be set", f.Path, strings.TrimSpace(line))
				}
			}
		})
	})
}
