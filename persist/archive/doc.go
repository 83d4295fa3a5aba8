// Package archive writes and reads archives. An archive is one file with a snapshot and the log behind it, to be carried
// elsewhere: what redis-cli --rdb downloads, and what a node saves of its data before it takes over a primary's.
//
// Writer writes the state of an open log's directory, plain or compressed; writer.go draws the format. Archive shows an
// archive as a data directory that never changes, so that tools and the engine read it as they read any other.
//
// # Files
//
//	writer.go  the format, and a plain archive
//	packer.go  a compressed archive
//	reader.go  an archive as a directory
package archive
