// Package toplist keeps the posts with the largest values of a column, so that the best of them can be told without a look at
// all posts. It is pure: it knows posts as a mid and a value, and is told of each change that may matter.
//
// # The marks of a list
//
// A List has two marks in the order of all posts (Entry.Below): by value, and among equal values by mid.
//
//	rank      rising ─────────────────────────────────────────▶
//	          posts that are not kept │ kept, maybe not all │ kept, all there are
//	                                least                  sure
//
//	least     every post that ranks below it is not in the list, and a change that leaves a post below it is no news
//	sure      every post that ranks at or above it is in the list, with its value. So the best k are known if the kth of
//	          the list is not below sure
//
// A list for the best n keeps up to 3n entries: at more, it keeps the best 2n, and the least of these becomes the new mark. Deletions and
// falling values only remove entries. When fewer than n are left above sure, and not all posts are in the list, it has to be
// built again: Build lowers least to the beginning, so that every change is noted from then on. The builder looks for the best
// 2n posts among all, and tells them by Add. Done says up to where this look was complete. That the list is full of changed posts
// after 3n changes, and least has risen to the least of them, bounds the cost of changes meanwhile.
//
// # Why it is exact
//
// The owner tells each change of a post while it holds the lock of the post's block, with the value after the change, and Add is called under the
// same lock with the value as it is. So for one post the calls have the order of its values. A post that ranks at or above
// sure was either changed last after Build: then it was noted, as least only rises between Build and Done. Or it was not
// changed since Build: then the look found it, if it ranks at or above the mark of Done.
//
// Reaches is all that a change costs that matters to no list: one comparison with the value of least, without a lock. It may be a moment
// old. A change that it dismisses, while Build lowers least, happens under the lock of a block that the look has not come to yet.
package toplist
