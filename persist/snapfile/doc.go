// Package snapfile reads and writes the files of a snapshot: manifests and images. A snapshot counts when its manifest has its
// name, so images are synced before (Images.Flush), and their directory is synced before the manifest is written
// (persist.Dir). What an image holds is the engine's; here it is bytes with a checksum a MiB. Cold files are those of package
// coldstore: this package knows their names and sizes, and asks a ColdCheck for the rest.
//
// # Files
//
//	manifests.go     lists, reads, writes and removes manifests; files that none names
//	images.go        writes images and syncs many at a time
//	image_writer.go  writes one image
//	image_reader.go  reads an image
//	check.go         verifies a file against its manifest
//	fault.go         BlockFault: a file of a snapshot that is damaged or missing
//	faults.go        all faults of a snapshot
package snapfile
