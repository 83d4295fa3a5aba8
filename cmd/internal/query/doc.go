// Package query reads the arguments of commands by condition, COUNTER.FIND and its kin, into counter.Query and its
// options. It is pure: no connection, no store, no clock.
//
// # Grammar
//
//	find      = counter { mids | where | LIMIT n | OFFSET n | DESC | columns | CURSOR c }
//	top       = counter column k { mids | where }
//	aggregate = counter [ column ] { mids | where }                 the column is that of SUM, MIN and MAX
//	update    = counter { mids | where | LIMIT n | change | RETURNING ( OLD | NEW ) }
//
//	mids      = MID op mid { AND MID op mid }  |  MID IN mid { mid }
//	where     = WHERE column op n { AND column op n }
//	columns   = COLUMNS column { column }
//	change    = SET column n | INCR column n | DECR column n | RESET column | DEL
//	op        = "=" | "!=" | "<" | "<=" | ">" | ">="
//
// Each word is an argument of its own. Words in capitals are keywords, in any case; each clause stands at most once, in
// any order, but for changes and COLUMNS, which go on with each one. Columns are called by name or suffix. Where a
// column stands alone any word is one; behind the first of COLUMNS a word that is a keyword ends the list, so a column
// called limit is named first, or behind a COLUMNS of its own.
//
// n of a condition is 0..2^63-1, also where the column cannot be so large: the condition is then always or never true.
//
// # Limits
//
// They hold before memory is taken for what they bound:
//
//	MaxConditions   on columns, and on mids, of one command
//	MaxMids         of MID IN
//	MaxRows         LIMIT of FIND, k of TOP, LIMIT of an UPDATE that returns rows
//	MaxOffset       OFFSET; what lies further is reached by CURSOR
//
// A FIND without LIMIT answers MaxRows at most, so that nobody is sent a million rows by mistake; a page, DefaultPage.
//
// # Cursors
//
// A cursor is where the next call goes on, and a check over the query it belongs to:
//
//	| mid, 16 hex digits | check, 8 hex digits |        "0": from the beginning, and at the end
//
// With another counter, range, condition or direction it is refused; LIMIT and COLUMNS may change from call to call. It
// holds on every node and for ever, as all it says is a mid. The check keeps mistakes out and not an attacker, who with
// it could only read what the same command reads anyway.
//
// # Files
//
//	find.go top.go aggregate.go update.go   a command each
//	conditions.go                           conditions alone, for tools
//	parser.go                               words, clauses, conditions
//	cursor.go errors.go limits.go
package query
