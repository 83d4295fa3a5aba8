// Package find is the commands by condition: COUNTER.FIND, TOP, SUM, COUNT, MIN, MAX and UPDATE. Package query reads
// their arguments, package counter looks for the items, and here the one is brought to the other and the answer to the
// client. Handlers see a Conn, not the connection.
//
// # Steps
//
// A query may look at every item there is, so it never runs in a loop: the rows here are none that Redis calls fast,
// and their connections are away while they run. It goes in steps of about a millisecond, between which everybody else
// has the store: no block is held for longer, and EXEC, changes of the schema and snapshots do not wait for a query's
// end. Queries of all connections share half of the processors, a step at a time in the order in which they asked, so
// that a loop always finds one, and rest after each as long as it took while others are served: see Conn.Steps.
//
// A client that goes away ends its query at the next step, and so does the end of the server.
//
// # Answers
//
//	FIND                  rows [mid, value ...]
//	FIND ... CURSOR c     [next, rows]; next is "0" at the end
//	TOP                   rows [mid, value], the largest first
//	COUNT SUM MIN MAX     an integer; null where MIN and MAX have nothing; a sum above 2^63-1 is a big number (RESP3) or
//	                      a string (RESP2)
//	UPDATE                the number of items changed; with RETURNING rows as FIND's
//
// They are the same arrays in both versions of the protocol. An answer is made when the last row is known: arrays say their
// length first. So rows are bounded (query.MaxRows), and a cursor leads to the rest. A page by cursor looks for pageSteps
// steps at most and may have fewer rows than LIMIT, even none, as SCAN's: a client is not left without an answer for longer
// than its patience because matches are rare.
//
// What an UPDATE has changed stays changed when it cannot go on. An error says then how many items that are, and is one
// of those in doubt (UNCERTAIN): an error of any other kind means that nothing was changed, as everywhere.
//
// Columns may be added and dropped while a query runs. It ends by an error (counter.DroppedError) only where it names a
// column that is dropped: in a condition, a change, behind COLUMNS, or as the column of TOP, SUM, MIN and MAX. Rows of a FIND
// without COLUMNS, and of RETURNING, do not have a column that was dropped while they were looked for.
//
// In MULTI these commands are refused: EXEC keeps everybody out, and must not for as long as a query takes.
package find
