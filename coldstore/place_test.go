package coldstore

// lookup is one row of a batch, and what was found.
type lookup struct {
	file *File
	mid  uint64
	vals []uint64 // room for the values

	at    Place
	found bool
	err   error
}

// getBatch answers all lookups in the rounds of Place, as the batches of package counter do. One lookup alone asks the disk
// by reading.
func getBatch(batch []lookup) {
	for i := range batch {
		l := &batch[i]
		if l.at = l.file.Locate(l.mid); len(batch) > 1 {
			l.file.Prefetch(l.at)
		}
	}
	for i := range batch {
		l := &batch[i]
		l.file.Touch(l.at, l.mid)
	}
	for i := range batch {
		l := &batch[i]
		l.found, l.err = l.file.GetAt(l.at, l.mid, nil, l.vals)
	}
}
