// Package feedload measures the cost of the feed of changes for a server, and how late changes arrive. One connection increments posts in turns, so the
// n-th change of the feed is its n-th INCR. Another one reads the feed. Each round has the same work without a reader and with one, in turns:
//
//	alone   INCRs as fast as they are answered              processor time of an INCR
//	read    the changes of alone, behind them               processor time of a change that is read in large replies
//	fed     as alone, while the feed is read                processor time of an INCR and of its change
//	paced   INCRs at a rate                                 the same, at that rate
//	beside  as paced, while the feed is read                the same, and the time from sending an INCR to having its change
package feedload
