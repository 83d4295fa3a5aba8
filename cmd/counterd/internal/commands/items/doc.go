// Package items has the commands on items, such as INCR, HGETALL and COUNTER.MGET: the operations that they add to a
// batch, and their replies. Handlers see a Call, not the connection that the command came by.
//
// # Two halves
//
// A command on items is not executed when it is read. Its handler plans it: it reads the arguments, adds operations to
// the open batch of the call and notes which reply is owed, as a function and the number of the first operation. When
// the connection has read all that is there, it runs the batch of all these commands at once, and has each reply made:
//
//	handler   args -> operations in Call.Batch, an Owed in Call.Owed
//	          (the batch runs: counter.Batch.Run)
//	Answer    Owed -> bytes in Call.Out
//
// So a pipeline of 64 INCRs finds all its blocks together and locks each once. A command that is refused (no such key,
// no number) owes an error in its place and adds nothing to the batch: those that make several changes check everything
// first and take back what they added (Batch.Truncate), so that they change all or nothing.
//
// Most replies are functions of the package with two numbers beside them, and allocate nothing. Only rare cases use
// closures: keys that name the wrong thing, HMGET and HSCAN of items.
//
// A read of thousands of keys is planned and answered with others served in between: Call.Breathe.
//
// # Files
//
//	call.go                        what a handler sees
//	keys.go strings.go hash.go     Redis's commands on any key, on numbers, on items
//	counter.go packed.go mset.go   counterd's own; pages of other nodes; COUNTER.MSET
//	increx.go object.go            INCREX; OBJECT
//	each.go                        GET, INCR and DECR of a pipeline: planned and answered together
//	reply.go array.go aborted.go   replies that several commands owe; arrays, and the errors that may stand in them; a refused EXEC
//	scanoptions.go                 what SCAN and HSCAN are given
//	numbered.go                    commands with a number (IDMP), which are made once
package items
