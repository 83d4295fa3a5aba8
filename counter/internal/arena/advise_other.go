//go:build !linux

package arena

import "errors"

func adviseHuge([]byte) {}

// Populate has the system give the pages of mem now.
func Populate(mem []byte) {}

func collapseHuge([]byte) error { return errors.ErrUnsupported }

func wantsHuge() bool { return false }

// release: elsewhere MADV_DONTNEED does not promise zeros.
func release(mem []byte) { clear(mem) }
