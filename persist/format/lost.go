package format

import (
	"strings"
)

// A range of mids whose image cannot be used, and of which no snapshot has another, goes on as a cold block whose file
// is missing, in manifests too. The name of that file, which never was, says what was lost with it, so that the files
// stay where they are for as long as a manifest names the range:
//
//	lost+71-90210.hot.cold                     the image of a hot block
//	lost+71-90210.cold+71-95000.hot.cold       the image of an overlay, and the cold file below, which alone is
//	                                           of the past
//	lost+71-90210.hot+71-95000.hot.cold        the image of what was known of a lost range: the first file is of
//	                                           the past now
const lostPrefix = "lost+"

// LostName returns the base name of the cold file in the place of files that cannot be used.
func LostName(names ...string) string { return lostPrefix + strings.Join(names, "+") + ColdSuffix }

// Remains returns the paths of the files that b, the cold block of a lost range, stands for; none of another block.
// They may be gone.
func (b *BlockFile) Remains(dir string) (paths []string) {
	names, lost := strings.CutPrefix(b.Name, lostPrefix)
	if !lost || b.Tier != TierCold {
		return nil
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(names, ColdSuffix), "+") {
		for _, t := range [...]Tier{TierHot, TierCold} {
			if isBlockName(t, name) {
				paths = append(paths, (&BlockFile{Tier: t, Name: name}).Path(dir))
			}
		}
	}
	return paths
}
