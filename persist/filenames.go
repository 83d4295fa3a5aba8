package persist

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Names of files and directories below the data directory. They are part of the format and must not change.
const (
	lockName       = "LOCK"
	logDirName     = "log"
	imageDirName   = "rdb"
	coldDirName    = "cold"
	manifestPrefix = "MANIFEST-"
	segmentSuffix  = ".aof"
	imageSuffix    = ".hot"
	coldSuffix     = ".cold"
	tempSuffix     = ".tmp" // a file that never got its name: removed at start
	brokenInfix    = ".broken-"
	offsetDigits   = 20 // of 2^64-1
)

// LogDir returns the directory of the log's segments.
func LogDir(dir string) string { return filepath.Join(dir, logDirName) }

// ImageDir returns the directory of the hot block images.
func ImageDir(dir string) string { return filepath.Join(dir, imageDirName) }

// ColdDir returns the directory of the cold block files.
func ColdDir(dir string) string { return filepath.Join(dir, coldDirName) }

// SegmentName returns the base name of the segment that starts at a log offset.
func SegmentName(start uint64) string {
	return fmt.Sprintf("%0*d%s", offsetDigits, start, segmentSuffix)
}

// ImageName returns the base name of the image of a block that stands at a log offset.
func ImageName(block, offset uint64) string {
	return fmt.Sprintf("%d-%d%s", block, offset, imageSuffix)
}

// ColdName returns the base name of the cold file of a block that stands at a log offset.
func ColdName(block, offset uint64) string { return fmt.Sprintf("%d-%d%s", block, offset, coldSuffix) }

// ManifestName returns the base name of a manifest.
func ManifestName(generation uint64) string {
	return manifestPrefix + strconv.FormatUint(generation, 10)
}

// parseSegmentName is the inverse of SegmentName.
func parseSegmentName(name string) (start uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(digits) != offsetDigits {
		return 0, false
	}
	start, err := strconv.ParseUint(digits, 10, 64)
	return start, err == nil
}

// parseManifestName is the inverse of ManifestName.
func parseManifestName(name string) (generation uint64, ok bool) {
	digits, ok := strings.CutPrefix(name, manifestPrefix)
	if !ok {
		return 0, false
	}
	generation, err := strconv.ParseUint(digits, 10, 64)
	return generation, err == nil && ManifestName(generation) == name
}

// isTemp reports whether a file never got its name.
func isTemp(name string) bool { return strings.HasSuffix(name, tempSuffix) }

// isBroken reports whether a file was set aside by a repair.
func isBroken(name string) bool { return strings.Contains(name, brokenInfix) }
