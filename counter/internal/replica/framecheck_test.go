package replica

import (
	"errors"
	"strings"
	"testing"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
)

// TestFrameChecker: a frame is checked against the schema of the frames before it, and a mid is below 2^63.
func TestFrameChecker(t *testing.T) {
	c, err := NewFrameChecker(nil)
	if err != nil {
		t.Fatal(err)
	}
	check := func(records []byte) error {
		return c.Check(append(make([]byte, format.FrameHeaderLen), records...))
	}
	sch, err := schema.ParseScript(strings.NewReader("add counter w\nadd column w n hint=4 max=4 suffix=n\n"), schema.Empty())
	if err == nil {
		err = check(format.AppendSchema(nil, string(sch.AppendText(nil))))
	}
	if err != nil {
		t.Fatal(err)
	}
	def := sch.Counter("w")
	id, column := def.ID, def.Columns[0].ID
	for name, records := range map[string][]byte{
		"a value of over 4 bits":     format.AppendSet(nil, id, column, 7, 16),
		"a mid of 2^63":              format.AppendSet(nil, id, column, 1<<63, 1),
		"a removed post of mid 2^63": format.AppendDelete(nil, id, 1<<63),
	} {
		if err := check(records); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := check(format.AppendSet(nil, id, column, 1<<63-1, 15)); err != nil {
		t.Error(err)
	}
}
