// Package place is where backups are kept: the interface of a place for objects, a place that is a directory, and the reading of a place in
// a bucket of S3. Package bucket has the client of S3 that also writes: it is a seventh of the size of the server,
// which only reads backups.
package place

import (
	"context"
	"errors"
	"io"
)

// Store is a place for objects, by names with slashes. Its methods may be called concurrently.
type Store interface {
	// Put makes an object of all that r gives, or none. One of that name is replaced.
	Put(ctx context.Context, name string, r io.Reader) error
	// Get reads an object; a missing object gives ErrNone.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// List calls f for every object whose name begins with prefix.
	List(ctx context.Context, prefix string, f func(name string, bytes int64) error) error
	// Remove removes an object. A missing object is no error.
	Remove(ctx context.Context, name string) error
	// Lock keeps others from writing until unlock; lost is closed when that can no longer be promised. Held by another
	// it gives ErrLocked.
	Lock(ctx context.Context) (unlock func() error, lost <-chan struct{}, err error)
	// String names the place, without secrets.
	String() string
}

// Errors of stores.
var (
	ErrNone   = errors.New("there is no such object")
	ErrLocked = errors.New("another one is writing or removing backups there")
)
