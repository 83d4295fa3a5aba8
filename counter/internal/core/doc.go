// Package core reads and changes the posts of a store: batches of operations, change sets, numbered changes, and the records
// of the log that these make. It knows the log and the data directory as values that it is given. It opens no files, and it
// starts no goroutine.
//
// Data is the posts and their guards. A Batch belongs to one goroutine and works on one Data. The packages beside this
// one move blocks between memory and files, make snapshots and follow a primary: each of them works on the same Data, and
// takes the locks in the order that stands at its type.
//
// Package counter gives the exported types of batches to the users of a store by its own names. Access that other packages beside
// this one need to a batch, and a user must not have, is a function here: DataOf, NoteSeen, DroppedBy, ChangedBy.
//
// # Files
//
//	data.go spaces.go          the posts of a store, and their guards; keyspaces by counter and group of hash slots
//	errors.go                  whether changes are taken; why not
//	schemachange.go            changes of the schema, and of all posts at once
//	moving.go                  groups of hash slots: which clients may touch, which are on their way
//	batch.go op.go             operations, run together
//	change.go                  a new value of a column; additions, and their bounds; neighbouring operations of a block
//	setrow.go                  several columns of a post at once
//	locate.go                  the blocks of operations, and the pages of cold files that a batch waits for
//	stretch.go                 changes that are logged at once
//	sight.go                   how far the log must be for the results, and their acknowledgement
//	old.go                     records with the values before a change
//	changeset.go setlock.go    operations that stand or fall together; the locks of their blocks, and large ones that cannot fail
//	longread.go                very many reads of one moment; pages of a pipeline, read group by group of hash slots
//	once.go ledger.go          numbered changes; the table of their producers, and which of these a number in the log stood for
//	series.go                  numbered additions of one producer, whose numbers follow each other
//	cursors.go                 named places in the feed of changes
//	windows.go windowset.go    changes of derived columns (package window) by a batch; by change sets
//	watchedadds.go             additions that top lists and derived columns follow, many of a block at once
//	tick.go                    the time of the log moves on
//	droprange.go               ranges of mids whose posts are removed at once, and the newest mids, which tell time
//	update.go updaterow.go      changes of the posts that a query finds, and a batch as queries see it
//	topnotes.go                notes of changes for the top lists of columns
//	replay.go                  records of the log, made again at the start and on a replica
package core
