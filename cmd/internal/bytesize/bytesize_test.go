package bytesize

import "testing"

func TestParse(t *testing.T) {
	for s, want := range map[string]uint64{
		"0": 0, "100": 100, "7b": 7, "1k": 1000, "1kb": 1024, "64m": 64e6, "64MB": 64 << 20, "2g": 2e9, "1Gb": 1 << 30, "3tb": 3 << 40,
		"4611686018427387904": 1 << 62,
	} {
		got, err := Parse(s)
		if err != nil || got != want {
			t.Errorf("%q: got %d, %v, want %d", s, got, err, want)
		}
		if again, err := Parse(Format(got)); err != nil || again != want {
			t.Errorf("%q as %q: got %d, %v", s, Format(got), again, err)
		}
	}
	for _, s := range []string{"", "mb", "-1", "1.5gb", "1pb", "1 gb", "4611686018427387905", "4194305tb", "18446744073709551616"} {
		if n, err := Parse(s); err == nil {
			t.Errorf("%q: got %d, want an error", s, n)
		}
	}
}
