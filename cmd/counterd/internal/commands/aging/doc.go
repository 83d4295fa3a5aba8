// Package aging drops posts by age, and keeps windows of time going (type Windows).
//
// Posts are dropped as follows. The schema names the counters by retain=, and by ids= how their mids carry time (schema.IDs).
//
// # The cut
//
// The primary of the posts computes a moment, the cut, and drops all posts below the first mid of that moment, as COUNTER.DROPRANGE does: by
// records of the log that its replicas, the feed, snapshots and moves of hash slots follow as they follow all others. A replica never
// computes a cut.
//
//	cut = min(wall clock, time of the 32nd newest post) - retain, as a multiple of the period
//
// The two clocks guard each other. A wall clock that jumps ahead drops nothing, as the newest posts do not jump with it. Posts newer than the wall
// clock do not count among the newest. So mids of the future, by a mistake of a client, drop nothing, however many there are, and with a clock that
// jumps ahead only if 32 of them lie between the true time and the clock's. Where both are wrong by the same mistake younger posts go. A counter with
// fewer than 32 posts, or that gets no new ones, keeps all its posts.
//
// The first cut is made an hour, or retain if that is shorter, after the node knows ids and retain of the counter: by a start, or by a change. Nothing brings
// posts back, and 12m are minutes: an operator who makes such a mistake has an hour to see it.
//
// The period is a 32nd of retain, a day at most, and a second at least. Its multiples are the same on all nodes: neither a
// new primary nor a restart makes the same cut again. So a post goes when it is between retain and retain and two periods old.
//
// A post that is written with a mid below the cut is taken, and goes with the next cut.
//
// # Files
//
//	cut.go       the moments of a counter: pure
//	task.go      task is work that begins in the background now and then
//	keeper.go    Keeper looks each second whether a cut is due, and drops
//	windows.go   Windows looks each second whether a bucket of a window has ended
package aging
