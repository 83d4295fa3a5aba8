// Package mapping says which number of which post a key of a Redis holds. It is pure: it reads keys, fields and values
// that others hand it, and knows nothing of where they come from.
//
// # Rules
//
//	post:{mid}:likes=weibo.attitude            a string that holds a number
//	p:{mid}:c#comments=weibo.comment           a field of a hash for each post
//	p:{mid}:c#*=weibo                          fields that are called as the counter's columns
//	likes#{mid}=weibo.attitude                 a hash with a field for each post
//	l:{mid/1000}#{mid%1000}=weibo.attitude     posts in buckets of 1000: hashes kept small to save memory
//	zlikes@{mid}=weibo.attitude                a sorted set with a member for each post, its score the number
//	post:{mid}=weibo(repost,comment,attitude)  several numbers in one string, as text
//	post:{mid}=weibo[repost:u32,comment:u32]   the same in binary, as BITFIELD and struct.pack leave it
//	post:{mid}=weibo{reposts:repost,likes:attitude}   the same as JSON
//
// In EBNF:
//
//	rule    = pattern [ ( "#" | "@" ) pattern ] "=" target .
//	pattern = { byte | "\" byte | id | "{*}" } .
//	id      = "{mid}" | "{mid:16}" | "{mid:36}" | "{mid/" n "}" | "{mid%" n "}" .
//	target  = name "." column | name
//	        | name "(" column sep column { sep column } ")"
//	        | name "[" column ":" width { "," column ":" width } [ ",..." ] "]"
//	        | name "{" key ":" column { "," key ":" column } "}" .
//	width   = "u" bits [ "le" ] .
//
// A rule is cut at its last "=", and its pattern at the first "#" or "@" without a "\" before it. {mid} is decimal, {mid:16}
// and {mid:36} take small and capital letters; leading zeros do not count. {*} is one byte or more, none of them the byte
// that follows it in the pattern. Other braces are themselves: post:{{mid}}:likes has a hash tag of Redis Cluster.
//
// Between the columns in parentheses stands the separator of the numbers, as in (repost:comment), the same everywhere. In
// all three packed forms "_" passes a number over. Binary numbers are big endian, and of any width up to 63 bits one behind
// the other as BITFIELD's are; those with "le" are of whole bytes. The string must have just that length; "..." allows a
// shorter one, whose missing end reads as zero, as BITFIELD reads it, and a longer one.
//
// # One rule for each key
//
// No key may fit two rules of different patterns: then the order of rules would matter, and a typing error would move
// numbers silently. Parse finds out by walking both patterns at once, which is exact, and refuses. Rules of one key
// pattern are one group, whose fields must not meet either. Where two rules write one column, which of the values stays
// depends on the order in which keys come: Repeated tells, and only those who add up may go on.
//
// # What does not map
//
// It is never an error of the whole: a Tally counts it by reason, with some examples of each.
//
//	mapping.go  Rules, Match: keys to items
//	rule.go     a rule's text
//	pattern.go  patterns: parsing, matching, whether two can meet
//	decode.go   values to numbers
//	change.go   commands to changes of numbers
//	back.go     numbers to commands
//	tally.go    what did not map
package mapping
