// Package build makes a data directory of posts that come in order of mid, without a store: cold files and images of the newest
// posts, several at once.
//
// # Files
//
//	build.go  the directory, its log and its manifest
//	space.go  the posts of one keyspace, cut into files
package build
