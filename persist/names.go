package persist

// watchNames refuses changes while the directory or the last segment is not what its name says: see above.
func (l *Log) watchNames() {
	err := l.files.maker.Guarded()
	l.mu.Lock()
	active, was := l.files.active, l.admission.refusals[reasonGone]
	l.mu.Unlock()
	if err == nil && active != nil {
		err = active.Name.Check(l.opts.FS)
	}
	if err == nil && was != nil {
		err = l.files.unchanged()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.admission.closing() || l.files.active != active || l.calls.healing() || l.files.rotate && l.calls.writing() { // it was being replaced by us
		return
	}
	l.admission.refuse(reasonGone, err)
}
