package format

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Names of files and directories below the data directory. They are part of the format and must not change.
const (
	LockName       = "LOCK"
	LogDirName     = "log"
	ImageDirName   = "rdb"
	ColdDirName    = "cold"
	manifestPrefix = "MANIFEST-"
	SegmentSuffix  = ".aof"
	ImageSuffix    = ".hot"
	ColdSuffix     = ".cold"
	TempSuffix     = ".tmp"     // a file that never got its name: removed at start
	StagedSuffix   = ".new"     // a file of an installation (past/install.go): gets its name, or is removed, at start
	AsideInfix     = ".broken-" // a file that a tool took out (past/aside.go)
	divergedPrefix = "diverged-"
	archiveSuffix  = ".archive"
	OffsetDigits   = 20 // of 2^64-1
)

// LogDir returns the directory of the log's segments.
func LogDir(dir string) string { return filepath.Join(dir, LogDirName) }

// ImageDir returns the directory of the hot block images.
func ImageDir(dir string) string { return filepath.Join(dir, ImageDirName) }

// ColdDir returns the directory of the cold block files.
func ColdDir(dir string) string { return filepath.Join(dir, ColdDirName) }

// SegmentName returns the base name of the segment that starts at a log offset.
func SegmentName(start uint64) string {
	return fmt.Sprintf("%0*d%s", OffsetDigits, start, SegmentSuffix)
}

// ImageName returns the base name of the image of a block, or of the table of producers, that stands at a log offset.
func ImageName(block, offset uint64) string {
	return fmt.Sprintf("%d-%d%s", block, offset, ImageSuffix)
}

// ParseImageName returns the log offset in a name that ImageName made. The names of copies have none.
func ParseImageName(name string) (offset uint64, ok bool) {
	stem, ok := strings.CutSuffix(name, ImageSuffix)
	block, digits, found := strings.Cut(stem, "-")
	if _, err := strconv.ParseUint(block, 10, 64); !ok || !found || err != nil {
		return 0, false
	}
	offset, err := strconv.ParseUint(digits, 10, 64)
	return offset, err == nil
}

// ColdName returns the base name of the cold file of a block that stands at a log offset.
func ColdName(block, offset uint64) string { return fmt.Sprintf("%d-%d%s", block, offset, ColdSuffix) }

// CopyName returns the base name of the n-th block file that a link to a primary copies. link is of letters and digits.
func CopyName(tier Tier, link string, n int) string {
	return fmt.Sprintf("copy-%s-%d%s", link, n, tier.suffix())
}

// maxBlockName bounds the base name of a block file: a file system takes 255 bytes, some of them for suffixes of
// temporary files.
const maxBlockName = 200

// isBlockName reports whether a manifest may give a block of a tier a name: it stays in its directory, and only files
// of blocks end so. Any other could be that of a file which a start removes.
func isBlockName(tier Tier, name string) bool {
	return IsBaseName(name) && len(name) <= maxBlockName && strings.HasSuffix(name, tier.suffix())
}

// ManifestName returns the base name of a manifest.
func ManifestName(generation uint64) string {
	return manifestPrefix + strconv.FormatUint(generation, 10)
}

// ParseSegmentName is the inverse of SegmentName.
func ParseSegmentName(name string) (start uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, SegmentSuffix)
	if !ok || len(digits) != OffsetDigits {
		return 0, false
	}
	start, err := strconv.ParseUint(digits, 10, 64)
	return start, err == nil
}

// IsOfManifest reports whether a file is, or was, a manifest. Manifests that were set aside, or are not finished, count.
func IsOfManifest(name string) bool { return strings.HasPrefix(name, manifestPrefix) }

// IsOfBlock reports whether a file is, or was, one of a block or of the producers. Files that were set aside, or are not finished, count. The directories of
// such files may have others, as lost+found of a disk of their own, or hidden files of tools.
func IsOfBlock(name string) bool {
	return strings.Contains(name, ImageSuffix) || strings.Contains(name, ColdSuffix)
}

// ParseManifestName is the inverse of ManifestName.
func ParseManifestName(name string) (generation uint64, ok bool) {
	digits, ok := strings.CutPrefix(name, manifestPrefix)
	if !ok {
		return 0, false
	}
	generation, err := strconv.ParseUint(digits, 10, 64)
	return generation, err == nil && ManifestName(generation) == name
}

// DivergedTailName returns the base name of the n-th tail, from 1 on, that was cut from the log at an offset.
func DivergedTailName(epoch uint32, at uint64, n int) string {
	again := ""
	if n > 1 {
		again = "-" + strconv.Itoa(n)
	}
	return fmt.Sprintf("%s%d-%d%s%s", divergedPrefix, epoch, at, again, SegmentSuffix)
}

// ParseDivergedTail is the inverse of DivergedTailName.
func ParseDivergedTail(name string) (at uint64, ok bool) {
	if !strings.HasPrefix(name, divergedPrefix) { // of most names, which the scan takes 20 times as long to refuse
		return 0, false
	}
	var epoch uint32
	n := 1
	if k, _ := fmt.Sscanf(name, divergedPrefix+"%d-%d-%d", &epoch, &at, &n); k < 2 {
		return 0, false
	}
	return at, DivergedTailName(epoch, at, n) == name
}

// DivergedArchiveName returns the base name of the n-th data set that was saved as a primary has another.
func DivergedArchiveName(n uint64) string {
	return divergedPrefix + strconv.FormatUint(n, 10) + archiveSuffix
}

// ParseDivergedArchive is the inverse of DivergedArchiveName.
func ParseDivergedArchive(name string) (n uint64, ok bool) {
	if !strings.HasPrefix(name, divergedPrefix) {
		return 0, false
	}
	if c, _ := fmt.Sscanf(name, divergedPrefix+"%d"+archiveSuffix, &n); c != 1 {
		return 0, false
	}
	return n, DivergedArchiveName(n) == name
}

// IsUnfinished reports whether a file of a data directory never got its name, in a write or in an installation.
func IsUnfinished(name string) bool { return strings.HasSuffix(name, TempSuffix) || IsStaged(name) }

// IsStaged reports whether a file belongs to an installation: a segment or a manifest that has not got its name yet.
func IsStaged(name string) bool {
	name, staged := strings.CutSuffix(name, StagedSuffix)
	_, segment := ParseSegmentName(name)
	_, manifest := ParseManifestName(name)
	return staged && (segment || manifest)
}

// IsDiverged tells whether a name in a data directory is of a file that keeps changes which a primary has not: a tail
// or an archive.
func IsDiverged(name string) bool {
	_, tail := ParseDivergedTail(name)
	_, archive := ParseDivergedArchive(name)
	return tail || archive
}
