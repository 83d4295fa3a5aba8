package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
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

// Open opens a place: a directory's path, made if it is not there, or s3://BUCKET/PREFIX?endpoint=HOST:PORT (&region=R,
// &tls=no). Keys for S3 come from the environment, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or from where the tools
// of AWS and MinIO have them.
func Open(place string) (Store, error) {
	if !strings.HasPrefix(place, "s3://") {
		if scheme, _, found := strings.Cut(place, "://"); found {
			return nil, fmt.Errorf("got a place of kind %q, want a directory or s3://BUCKET/PREFIX", scheme)
		}
		return openDir(place)
	}
	u, err := url.Parse(place)
	if err != nil {
		return nil, fmt.Errorf("got %q, want s3://BUCKET/PREFIX?endpoint=HOST:PORT", place)
	}
	return openS3(u)
}

// IsPlace tells whether Open can open path and it has backups. It is false for a data directory or a file.
func IsPlace(path string) bool {
	return strings.HasPrefix(path, "s3://") || hasBackups(path)
}
