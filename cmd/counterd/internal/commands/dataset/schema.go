package dataset

import (
	"context"
	"errors"
	"strings"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// alter: ADD, DROP and ALTER, COUNTER and COLUMN.
func alter(c Conn, args [][]byte) {
	call := c.Call()
	st, err := schema.ParseStatement(args)
	done := false
	if err == nil {
		done, err = c.AlterCluster(st.String())
	}
	if err == nil && !done && st.Derives() { // the log is going to have ticks
		c.Busy(func(context.Context) { err = c.Store().Replication().AdmitCursors() })
		if errors.Is(err, counter.ErrInMemory) {
			err = nil
		}
	}
	if err == nil && !done {
		err = c.WithStore(true, func(b *counter.Batch) error {
			before := b.Schema()
			err := b.Whole().Alter(st)
			if b.Schema() != before {
				c.TouchAll()
				c.Log().Info("schema changed", "statement", st.String())
			}
			return err
		})
	}
	if err != nil {
		call.StoreError(err)
		return
	}
	call.Out.Status("OK")
}

// script: SCHEMA prints the script that would make the schema again, one bulk string a line.
func script(c Conn, _ [][]byte) {
	call := c.Call()
	var text string
	if err := c.WithStore(false, func(b *counter.Batch) error { text = b.Schema().String(); return nil }); err != nil {
		call.StoreError(err)
		return
	}
	if text == "" {
		call.Out.Array(0)
		return
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	call.Out.BulkStrings(lines)
}
