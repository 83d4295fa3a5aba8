// Package durability tests what an acknowledged change survives: kills, disks that fail, damaged files.
//
// # Files
//
//	main_test.go                 builds counterd
//	kill_test.go                 kill -9 again and again
//	trouble_test.go              disks that fail
//	damage_test.go cut_test.go   damaged logs and snapshots; repairs that cut the log
//	healfrom_test.go             a damaged directory heals from a backup
//	tools_test.go                the tools on directories
//	clocks_test.go      the clock of a running server is set
//	cold_test.go cold_unreadable_test.go lost_test.go  posts in files; pages and images that cannot be read
//	compress_test.go upgrade_test.go  compressed logs; directories of earlier versions
//	upgrade_pair_test.go         a primary and a replica of two versions (make upgrade)
package durability
