// Package rangecopy is the posts of a range of mids as they were at one moment, and their digests. Replicas and their
// primary compare such copies (counter.RangeCopier).
package rangecopy
