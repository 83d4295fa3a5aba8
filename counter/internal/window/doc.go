// Package window has what derived columns (schema.Derived) are made of: the time of the log (Clock), and the item of a post in the space of
// a column (Place), with the counts of its buckets or the sum that decays. It knows blocks, and nothing of batches, logs and stores: package core has the locks, and says
// which records an addition becomes.
package window
