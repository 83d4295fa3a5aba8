package config

import "testing"

// TestParseFlags: the errors of a command line name the valid flags or values.
func TestParseFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--prot", "7000"}, "unknown flag --prot: did you mean --port? (--help lists the flags)"},
		{[]string{"--nosuch"}, "unknown flag --nosuch (--help lists the flags)"},
		{[]string{"-p", "7000"}, "unknown flag -p: the flags begin with --, as in --port 6379 (--help lists them)"},
		{[]string{"--port"}, "the flag --port needs a value (--help describes it)"},
		{[]string{"--port", "abc"}, `--port: got "abc", want a whole number from 0 to 65535`},
		{[]string{"--slowlog-max-len", "1.5"}, `--slowlog-max-len: got "1.5", want a whole number from 0 to 1048576`},
		{[]string{"--maxmemory", "1xb"}, `--maxmemory: got "1xb", want a number of bytes such as 1048576, 64mb or 1gb`},
		{[]string{"--port", "7000"}, ""},
	} {
		conf := Default()
		fs, _ := Flags(&conf)
		text := ""
		if err := ParseFlags(fs, c.args); err != nil {
			text = err.Error()
		}
		if text != c.want {
			t.Errorf("%q: got %q, want %q", c.args, text, c.want)
		}
	}
}
