package persist

// nameWatch refuses changes while the directory or the last segment is not what its name says: another process may have
// the directory, or it was removed. It knows the segment files and why changes are refused.
type nameWatch struct {
	files     *segmentFiles
	calls     *diskCalls
	admission *admission
}

// check sets or clears reasonGone.
func (w *nameWatch) check() {
	err := w.files.maker.Guarded()
	w.files.lock.Lock()
	active, was := w.files.active, w.admission.refusals[reasonGone]
	w.files.lock.Unlock()
	if err == nil && active != nil {
		err = active.Name.Check(w.files.maker.FS)
	}
	if err == nil && was != nil {
		err = w.files.unchanged()
	}
	w.files.lock.Lock()
	defer w.files.lock.Unlock()
	if w.admission.closing() || w.files.active != active || w.calls.healing() || w.files.rotate && w.calls.writing() { // this process was replacing it
		return
	}
	w.admission.refuse(reasonGone, err)
}
