package core

import (
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/schema"
)

// View is a batch as queries see it.
type View Batch

func (v *View) Schema() *schema.Schema { return (*Batch)(v).Schema() }

func (v *View) Space(counter uint32) block.Space { return v.data.Spaces[counter] }

func (v *View) Owned() block.Ownership { return v.data.Own }

func (v *View) NoteSeen(pos uint64) { v.seen.noteSeen(pos) }
