package human

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/counterd/counterd/cmd/internal/cli"
)

// Progress returns a function that shows how many bytes of how many are done, and a function that removes it: a
// bar on a terminal, nothing elsewhere.
func Progress(w io.Writer, what string) (show func(done, total uint64), finish func()) {
	return progress(w, what, progressbar.OptionShowBytes(true))
}

// CountProgress is Progress for counts.
func CountProgress(w io.Writer, what string) (show func(done, total uint64), finish func()) {
	return progress(w, what, progressbar.OptionShowCount())
}

func progress(w io.Writer, what string, unit progressbar.Option) (show func(done, total uint64), finish func()) {
	w, ok := cli.Terminal(w)
	if !ok {
		return func(uint64, uint64) {}, func() {}
	}
	bar := progressbar.NewOptions64(1,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(what),
		unit,
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetWidth(30),
		progressbar.OptionClearOnFinish(),
	)
	show = func(done, total uint64) {
		bar.ChangeMax64(int64(total))
		_ = bar.Set64(int64(min(done, total))) // a bar that cannot be drawn must not end the work
	}
	return show, func() { _ = bar.Clear() }
}
