// Package durable keeps a store's posts in files: snapshots, the start that reads them back, the room on the disk, and the removal
// of old files. It works on core.Data.
//
// Snapshots makes them, one at a time, when they are due. Recover reads the newest one and the log behind it. Retention says
// which files and which part of the log stay, for a manifest, a block, a replica that copies (Pins), or an option. Space keeps room for the next snapshot. Packing compresses log that is only retained. Scrubber reads all files again.
//
// # Files
//
//	snapshot.go snapshotter.go verify.go  snapshots: made, when, checked
//	recover.go lostrange.go wholelog.go   a start; ranges whose image is lost; whether the log alone has all
//	blockfile.go producersfile.go         the file of one block, and that of producers
//	inspect.go                            files as tools show them
//	archive.go                            a snapshot and its log as one file
//	space.go retention.go packing.go      room for the next snapshot; files that are removed; log that is compressed
//	processoruse.go                       how busy the process is
//	pin.go                                files that stay while they are copied
//	scrub.go scrubpace.go threadtime_*.go  files that are read again, and mended; the time that takes
package durable
