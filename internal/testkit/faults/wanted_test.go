package main

import (
	"reflect"
	"testing"
)

// TestWanted: planted faults are chosen by name, mends of the ledger by number and by range, and each may have a scene of its own.
func TestWanted(t *testing.T) {
	list := []Planted{{"no-sync", "none", ""}, {"152", "moves", ""}}
	faults := []Fault{{N: 151, Subject: "cluster"}, {N: 152, Subject: "move"}, {N: 153, Subject: "move"}, {N: 154, Subject: "numbered"}}
	reversed := func(n int) bool { return n != 151 }
	for _, c := range []struct {
		only string
		want []Planted
	}{
		{"no-sync", []Planted{{"no-sync", "none", ""}}},
		{"152,no-sync@power", []Planted{{"152", "moves", ""}, {"no-sync", "power", ""}}},
		{"153", []Planted{{"153", "moves", unlisted}}},
		{"154@producers", []Planted{{"154", "producers", unlisted}}},
		{"100-200", []Planted{{"153", "moves", unlisted}, {"154", "none", unlisted}}},
		{"151", nil},
		{"160-200", nil},
		{"sync", nil},
	} {
		got, err := wanted(list, faults, reversed, c.only)
		if (err == nil) != (c.want != nil) || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s is %v, %v; want %v", c.only, got, err, c.want)
		}
	}
}
