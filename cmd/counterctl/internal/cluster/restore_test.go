package cluster

import (
	"strings"
	"testing"

	"github.com/counterd/counterd/schema"
)

// TestBeginEmpty: a restore of a cluster names the columns whose counts it does not restore.
func TestBeginEmpty(t *testing.T) {
	const plain = "add counter weibo\nadd column weibo repost hint=8 suffix=cntrn\n"
	for script, want := range map[string]string{
		plain: "",
		plain + "add column weibo r1h window=1h/5m of=repost\nadd counter pages\nadd column pages views hint=8 suffix=v\nadd column pages heat decay=6h of=views*2 top=10\n": "weibo.r1h, pages.heat",
	} {
		sch, err := schema.ParseScript(strings.NewReader(script), schema.Empty())
		if err != nil {
			t.Fatal(err)
		}
		if got := beginEmpty(sch); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
