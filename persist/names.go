package persist

// watchNames refuses changes while the directory or the last segment is not what its name says: see above.
func (l *Log) watchNames() {
	err := l.files.maker.Guarded()
	l.mu.Lock()
	active, was := l.files.active, l.refusals[reasonGone]
	l.mu.Unlock()
	if err == nil && active != nil {
		err = active.Name.Check(l.opts.FS)
	}
	if err == nil && was != nil {
		err = l.files.unchanged()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing || l.files.active != active || l.calls.healing() || l.files.rotate && l.calls.writing() { // it was being replaced by us
		return
	}
	l.refuse(reasonGone, err)
}
