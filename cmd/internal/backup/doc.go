// Package backup keeps copies of a data directory in a place of their own: a directory, or a bucket of a store that
// speaks S3.
//
//	objects/<2 digits>/<sha256>.zst      what a file held, once however many backups have it
//	backups/<UTC time>-<log end>.json    a backup: which files it is made of (Index)
//	lock                                 who is writing or removing now
//
// # A backup
//
// The directory may be in use. First HISTORY and the manifests are read, then the log is listed, and then what they name
// is copied: block files, and the segments up to where the log ended when it was listed. So no manifest speaks of a log
// that the backup has not. All files are opened before the first is copied, so that those which the server removes
// meanwhile (it makes snapshots) can be read; if a file is gone before, the backup begins anew and reuses the files
// copied so far. The index is written last: before it, there is no backup.
//
// A file whose name, size and time of change (and checksum, where a manifest has one) the newest backup knows is not
// read again: images, cold files and finished segments never change, but for a segment that the server compresses, once.
// So a backup copies only data written or compressed since the last one. Each new block file is verified against its
// manifest, and the frames of each new segment are, also of those that only restores to earlier moments read; each
// object is named by the SHA-256 of its content, which Fetch checks.
//
// # Writers
//
// One at a time: Create and Prune hold the lock. In a directory that is flock(2), in a bucket an object that is put only
// if there is none, and renewed; its holder is taken for dead when it was not for five minutes. Prune removes indexes
// first and then objects that no index names; a crash in between leaves objects, never a backup without one.
//
// # Files
//
//	create.go, packer.go                                       a backup is made
//	store.go place/ bucket/                                    the interface of a place; a directory; a bucket
//	index.go                                                   what a backup is made of
//	fetch.go                                                   a backup is brought back
//	line.go                                                    backups of one history, and the moments that they restore
//	pins.go                                                    files of a directory in use that must stay
//	prune.go                                                   old backups are removed
package backup
