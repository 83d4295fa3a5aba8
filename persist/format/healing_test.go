package format

import (
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/damagetest"
)

// TestHealingText: what is written is read back, the text is that of the golden, and any damage is found.
func TestHealingText(t *testing.T) {
	h := Healing{Aside: true, Set: 3, First: 2, Since: 1764000000000, Reason: "corrupt file d/HISTORY\nat byte 7: want %d"}
	text := h.Text()
	const golden = "counterd healing 1\nstep aside\nset 3 first 2\nsince 1764000000000\nreason corrupt file d/HISTORY at byte 7: want %d\nend crc32c "
	if !strings.HasPrefix(string(text), golden) {
		t.Fatalf("%q", text)
	}
	got, err := DecodeHealing("HEALING", text)
	h.Reason = strings.ReplaceAll(h.Reason, "\n", " ")
	if err != nil || got != h {
		t.Fatalf("%+v, %v, want %+v", got, err, h)
	}
	damagetest.AllFound(t, text, isDamage, func(b []byte) error {
		_, err := DecodeHealing("HEALING", b)
		return err
	})
	long := Healing{Set: 1, Reason: strings.Repeat("x", 1<<20)}
	if text := long.Text(); len(text) > MaxHealing {
		t.Errorf("%d bytes, want %d at most", len(text), MaxHealing)
	} else if _, err := DecodeHealing("HEALING", text); err != nil {
		t.Error(err)
	}
}

// TestDamagedName: names of files that are set aside.
func TestDamagedName(t *testing.T) {
	for _, name := range []string{"log", "MANIFEST-7", "log.damaged-4"} {
		if got, n, ok := ParseDamaged(DamagedName(name, 12)); got != name || n != 12 || !ok {
			t.Errorf("%s: %q, %d, %v", name, got, n, ok)
		}
	}
	for _, name := range []string{"log", ".damaged-1", "log.damaged-", "log.damaged-01", "log.damaged-1x"} {
		if _, _, ok := ParseDamaged(name); ok {
			t.Errorf("%s counts as set aside", name)
		}
	}
}
