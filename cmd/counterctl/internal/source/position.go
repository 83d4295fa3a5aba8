package source

import (
	"encoding/json"
	"errors"
	"strconv"
)

// position is where the reading is: everything before it is read, nothing behind it.
//
// Invariant: the keys that SCAN gave before Cursor are read, but for Keys from Next on; and of the key Keys[Next], if
// Within is set, the cursor that HSCAN or ZSCAN gave before it.
type position struct {
	Node   int      `json:"node"`             // index of the node; as many as there are: all is read
	Cursor string   `json:"cursor,omitempty"` // of the next SCAN; "": there is none to be made, on this node
	Begun  bool     `json:"begun,omitempty"`  // a SCAN was made on this node
	Keys   [][]byte `json:"keys,omitempty"`   // of the last SCAN, those with a rule
	Next   int      `json:"-"`
	Within string   `json:"within,omitempty"` // cursor in the first key
}

func parsePosition(text json.RawMessage) (*position, error) {
	p := &position{}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, err
	}
	if p.Node < 0 || !validCursor(p.Cursor) || !validCursor(p.Within) || p.Within != "" && len(p.Keys) == 0 {
		return nil, errors.New("no position")
	}
	return p, nil
}

// validCursor tells whether a cursor is a number: nothing else of a file goes to a server.
func validCursor(c string) bool {
	_, err := strconv.ParseUint(c, 10, 64)
	return c == "" || err == nil
}

// text is the position for a resume file.
func (p position) text() (json.RawMessage, error) {
	p.Keys = p.Keys[p.Next:]
	return json.Marshal(p)
}
