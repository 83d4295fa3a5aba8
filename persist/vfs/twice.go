package vfs

// A small file without which a start cannot go on is kept twice: the file, and a copy of it beside it. A copy that is damaged or
// gone is no loss, and a file that is takes its content from the copy. A reader takes the copy only where the file does not count.

// CopySuffix ends the name of the copy.
const CopySuffix = ".copy"

// WriteTwice replaces a file and its copy, each as WriteFileAtomic does. The copy comes first: it is never older than the file,
// however a crash ends this. It may have the content that the caller was about to write.
func WriteTwice(fsys FS, name string, data []byte) error {
	if err := WriteFileAtomic(fsys, name+CopySuffix, data); err != nil {
		return err
	}
	return WriteFileAtomic(fsys, name, data)
}

// RemoveTwice removes a file and its copy, as far as they are there. The file goes last: behind a crash it is as before, or both
// are gone. The caller syncs the directory.
func RemoveTwice(fsys FS, name string) error {
	if err := RemoveIfThere(fsys, name+CopySuffix); err != nil {
		return err
	}
	return RemoveIfThere(fsys, name)
}
