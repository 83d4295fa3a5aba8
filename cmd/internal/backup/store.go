package backup

import "github.com/counterd/counterd/cmd/internal/backup/place"

// Store is a place for objects.
type Store = place.Store

// Errors of stores.
var (
	ErrNone   = place.ErrNone
	ErrLocked = place.ErrLocked
)
