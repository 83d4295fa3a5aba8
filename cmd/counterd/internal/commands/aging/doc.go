// Package aging drops posts by age. The schema names the counters by retain=, and by ids= how their mids carry time (schema.IDs).
//
// # The cut
//
// The primary of the posts computes a moment, the cut, and drops all posts below the first mid of that moment, as COUNTER.DROPRANGE does: by
// records of the log that its replicas, the feed, snapshots and moves of hash slots follow as they follow all others. A replica never
// computes a cut.
//
//	cut = min(wall clock, time of the 32nd newest post) - retain, as a multiple of the period
//
// The two clocks guard each other. A wall clock that jumps ahead drops nothing, as the newest posts do not jump with it. A few posts with mids of
// the future, by a mistake of a client, drop nothing either, since 32 of them are needed and the wall clock holds. Where both are wrong
// by the same mistake younger posts go. A counter with fewer than 32 posts, or that gets no new ones, keeps all its posts.
//
// The period is a 32nd of retain, a day at most, and a second at least. Its multiples are the same on all nodes: neither a
// new primary nor a restart makes the same cut again. So a post goes when it is between retain and retain and two periods old.
//
// A post that is written with a mid below the cut is taken, and goes with the next cut.
//
// # Files
//
//	cut.go       the moments of a counter: pure
//	keeper.go    Keeper looks each second whether a cut is due, and drops
package aging
