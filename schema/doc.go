// Package schema says which counters there are, of which columns they are
// made, which key names which number, and how one item's columns are packed in
// bits. It is pure: it opens no file and no socket, starts no goroutine and
// takes no lock.
//
// # Words
//
// A counter is a named set of columns, as a table is in SQL. An item is one mid
// (a post's id, 0 to 2^63-1) of one counter, with all its columns. A column is
// one number of an item: hint bits wide where items are packed, max bits at
// most, default where it was never set, suffix in keys.
//
// # Schemas
//
// A [Schema] never changes. [Schema.Apply] runs one [Statement] and answers
// another schema, or the very same pointer when there was nothing to do, so a
// server publishes a schema with one atomic pointer and readers take no lock.
// A statement that fails leaves nothing behind.
//
// Counters and columns carry ids that rise and are never used twice: counters
// in the schema, columns in their counter. Both start at 1. Blocks remember
// columns by id, so a column that is dropped and added again is a new one: it
// answers its default and not the numbers of the old one. Ids depend on
// nothing but the statements, so that running the same statements again, on
// a replica or from the log, gives the same ids. Since a new column goes last
// and takes the highest id, the columns of a counter are always in rising
// order of their ids.
//
// # Statements
//
// Words are separated by spaces and tabs. Keywords and the names of attributes
// may be in upper or lower case, names and suffixes are taken as they are.
//
//	script     = { line } .
//	line       = [ statement ] [ comment ] ( LF | CR LF | end of text ) .
//	comment    = "#" { any byte but LF } .              at the start of a word
//	statement  = "add" "counter" name { trait }
//	           | "alter" "counter" name trait { trait }
//	           | "alter" "column" name name top
//	           | "add" "column" name name { attribute } .
//	           | "drop" "column" name name
//	           | "drop" "counter" name .
//	attribute  = "hint=" number | "max=" number | "default=" number
//	           | "suffix=" suffix | top | "primarykey" .      each at most once
//	top        = "top=" ( number | "off" ) .
//	trait      = "ids=" ids | "retain=" retain
//	           | "old=" ( "on" | "off" ) .              each at most once
//	ids        = "weibo" | "snowflake" | "discord" | "mastodon" | "none"
//	           | ( "ms" | "s" ) ":" number ":" number .
//	retain     = number ( "s" | "m" | "h" | "d" ) | "off" .
//	name       = ( letter | "_" ) { letter | digit | "_" } .      at most 64
//	suffix     = { letter | digit | "_" } .                       at most 64
//	number     = digit { digit } .
//
// The rules behind the grammar:
//
//   - 1 <= hint <= max <= 64. hint must be given, max is hint when left out.
//   - default is 0 when left out, below 2^max and at most 2^63-1.
//   - suffix is the column's name when left out; "suffix=" is the empty one. A
//     column that is there with the empty suffix keeps it when its line, without
//     a suffix, is said again: that is what the line meant once.
//   - A suffix that is not empty belongs to one column of the whole server; an
//     empty one to at most one column of each counter.
//   - The primary key is hint=64 max=64, has no default and no suffix, and
//     cannot be dropped. A counter that declares none has one called mid. Its
//     line may come before "add counter"; it is then kept for the counter to
//     come. No column is called like it.
//   - An ordinary column needs its counter.
//   - ids says how mids carry time (type [IDs]), retain how long posts are kept by
//     that time. retain needs ids. old=on has the log keep the values before each
//     change. "alter counter" leaves attributes that it does not name as they are.
//   - top is how many posts with the largest values of the column are kept in a
//     list: 1 to 10000, at most 8 columns of a counter. The list itself is no part of
//     the schema. "alter column" changes top alone.
//   - Saying the same thing again is no error and changes nothing. Saying
//     something else about the same name is [ErrSchemaMismatch].
//   - "drop counter" forgets a primary key whose counter never came.
//
// # Text
//
// [Schema.String] is the script that makes the same schema again, in the same
// order; [ParseScript] runs a script. That a script may rebuild any schema is
// why the schema's own text is held to [MaxScript] bytes. [Schema.AppendText]
// and [ParseDurable] are the form for files, which carries the ids too; it is
// described at the encoder.
//
// # Keys
//
//	key        = [ name ":" ] mid [ "." suffix ] .      the suffix is not empty
//	mid        = digits | "{" digits "}" .              0 to 2^63-1
//
//	MID.suffix        the column of that suffix, whichever counter has it
//	MID               the whole item of the first counter
//	NAME:MID          the whole item of the counter
//	NAME:MID.suffix   the column, which has to belong to the counter
//
// A column whose suffix is empty turns NAME:MID, and MID for the first counter,
// into a plain number, the column's; [Schema.ParseItem] still reads those two
// as the whole item, for the commands that work on items. Leading zeros do not
// count, however many. The braces are a Redis Cluster hash tag: with them,
// clients send all keys of an item to one node. Nothing else is a key: no
// sign, no space, nothing empty.
//
// # Layouts
//
// A [Layout] is the packing of one item: which columns, of which widths, at
// which bits. Each block keeps the layout it was built with while the schema
// moves on, so the two meet by column id: [Layout.Index] says where a column
// lies in a block, or that the block has never heard of it.
//
// # Files
//
//	schema.go counter.go column.go    the values: a schema, its counters, their columns
//	statement.go draft.go script.go   statements, how they change a schema, and scripts of them
//	attributes.go                     the attributes of a counter
//	ids.go                            how mids carry time, and how long posts are kept
//	derived.go decayed.go             columns that follow from the additions to others: in a window of time, or decaying
//	top.go                            how long the top list of a column is
//	durable.go                        the text with ids, for manifests and the log
//	key.go suffixes.go                keys, and the table of suffixes that parsing them uses
//	mids.go                           the mids of a page, and their groups of hash slots
//	layout.go layout_codec.go         how the columns of an item are packed, and its binary form
//	errors.go suggest.go              errors, and what a wrong key may have meant
package schema
