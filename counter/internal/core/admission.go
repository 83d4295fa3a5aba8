package core

// TakesChanges tells why no change may be made, or nil. REQUIRES: there is a log.
func (d *Data) TakesChanges() error {
	if d.Replica.Load() {
		return ErrReplica
	}
	if d.Changing.Load() {
		// A primary that has to write down whose log it is, as the disk took no writes before, stays a primary.
		if err := d.Log.Ready(); err != nil {
			return err
		}
		return ErrReplica
	}
	if err := d.Refusal.Load(); err != nil {
		return *err
	}
	return d.Log.Ready()
}
