// Package acl has the users of a server, their passwords and rights, in the words of Redis's ACL. It knows nothing of
// connections: a session has a User, and asks Check before each command.
//
// # What a user is
//
//	Users      all of them by name
//	User       one, for as long as it lasts: a name, and the Rights that it has now
//	Rights     on or off, passwords, selectors; never changed once they are in force
//	selector   the commands, keys and channels that go together; the first is the user's own, others stand in ( )
//
// A change makes new Rights of a copy and puts them in the place of the old ones with one store: sessions read them before
// each command, so a change holds from the next command on, everywhere, and a rule that is wrong changes nothing. A user
// that is removed has no rights from then on. The server closes the connections of that user.
//
// # Keys
//
// A pattern is matched with the names of what a key means, however the key was written: with or without its counter, with
// leading zeros, with braces. So no spelling of a post is a way around a pattern. A number has these names:
//
//	key                                              full name        short name
//	7.cntrn  007.cntrn  {7}.cntrn  weibo:{7}.cntrn   weibo:7.cntrn    7.cntrn      one number
//	7        007        {weibo:7}                    weibo:7          7            a whole post, of the first counter
//	other:7  other:007                               other:7                       of another one
//
// The right to a post is the right to each of its numbers. So ~weibo:* is a counter with all its posts, ~weibo:7 one post,
// and ~*.cntrn one column. A key without suffix is the whole post: commands on hashes ask for it, whichever fields they
// name. COUNTER.MGET and COUNTER.MSET ask for each post, or where columns are named for these numbers of it, as MGET and
// MSET do for their keys. A key that means nothing, as no counter or suffix has its name, is its own name.
//
// What walks a counter (COUNTER.FIND and its kin) asks for all of it: one pattern that ends in a star and matches all that
// begins with "weibo:". What walks all data (SCAN, FLUSHALL) asks for all counters that there are. What a command asks
// stands in its row: see command.Access.
//
// # Passwords
//
// They are kept as SHA-256, as Redis does, and compared in constant time; a name that is nobody's takes as long. Error
// texts and logs show no word that could be one.
//
// # Files
//
//	user.go users.go     User and Users: changes, AUTH
//	rights.go            Rights, how a rule changes them, and their text
//	selector.go          commands and channels of one selector
//	pattern.go keys.go   patterns; what they allow
//	check.go             the question before each command, and its answers in words
//	catalog.go           the names of commands that rules know; foreign.go: those that are Redis's alone
//	file.go              aclfile
//	log.go               ACL LOG
//	commands.go          ACL, and what it sees of a connection
//
// # Concurrency
//
// Everything may be used by several goroutines at once. Users.mu is held by those who change users, one at a time; it
// is a leaf. Check takes no lock.
package acl
