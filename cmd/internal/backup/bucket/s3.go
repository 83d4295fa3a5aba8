// Package bucket opens places for backups of every kind: directories, and prefixes in buckets of a store that speaks S3.
package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/counterd/counterd/cmd/internal/backup/place"
)

const (
	// partBytes is how much of a large object is in memory at once: S3 takes 10,000 parts, so 160 GB an object.
	partBytes = 16 << 20

	lockRenewed = 30 * time.Second
	lockStale   = 5 * time.Minute // a lock that was not renewed for so long is a dead one's
	lockName    = "lock"
)

// plain has bodies sent as they are, as with TLS they are anyway: several servers keep the chunks of a signed body as if
// they were its content. The backup's index has the size and checksum of each object.
var plain = minio.PutObjectOptions{DisableContentSha256: true}

// s3Store is a prefix in a bucket.
type s3Store struct {
	client *minio.Client
	bucket string
	prefix string // empty, or with a slash behind
}

func openS3(u *url.URL) (place.Store, error) {
	query := u.Query()
	for name := range query {
		if name != "endpoint" && name != "region" && name != "tls" {
			return nil, fmt.Errorf("%s: got option %q, want endpoint, region or tls", u.Redacted(), name)
		}
	}
	if u.Host == "" || u.User != nil {
		return nil, errors.New("want s3://BUCKET/PREFIX, and keys in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)")
	}
	endpoint := query.Get("endpoint")
	if endpoint == "" {
		endpoint = "s3.amazonaws.com"
	}
	client, err := minio.New(endpoint, &minio.Options{
		Creds: credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.EnvMinio{}, &credentials.FileAWSCredentials{},
			&credentials.IAM{Client: &http.Client{Timeout: 5 * time.Second}}}),
		Secure: query.Get("tls") != "no",
		Region: query.Get("region"),
	})
	if err != nil {
		return nil, err
	}
	prefix := strings.Trim(u.Path, "/")
	if prefix != "" {
		prefix += "/"
	}
	return &s3Store{client, u.Host, prefix}, nil
}

func (s *s3Store) String() string {
	return "s3://" + s.bucket + "/" + strings.TrimSuffix(s.prefix, "/")
}

// Open opens a place: a directory's path, made if it is not there, or s3://BUCKET/PREFIX?endpoint=HOST:PORT (&region=R,
// &tls=no). Keys for S3 come from the environment, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or from where the tools
// of AWS and MinIO have them.
func Open(path string) (place.Store, error) {
	if !strings.HasPrefix(path, "s3://") {
		if scheme, _, found := strings.Cut(path, "://"); found {
			return nil, fmt.Errorf("got a place of kind %q, want a directory or s3://BUCKET/PREFIX", scheme)
		}
		return place.OpenDir(path)
	}
	u, err := url.Parse(path)
	if err != nil {
		return nil, fmt.Errorf("got %q, want s3://BUCKET/PREFIX?endpoint=HOST:PORT", path)
	}
	return openS3(u)
}

// IsPlace tells whether Open can open path and it has backups. It is false for a data directory or a file.
func IsPlace(path string) bool {
	return strings.HasPrefix(path, "s3://") || place.HasBackups(path)
}

// none tells whether err says that an object is not there.
func none(err error) bool { return minio.ToErrorResponse(err).Code == "NoSuchKey" }

func (s *s3Store) wrap(name string, err error) error {
	if err == nil {
		return nil
	}
	if none(err) {
		err = place.ErrNone
	}
	return fmt.Errorf("%s/%s: %w", s, name, err)
}

func (s *s3Store) Put(ctx context.Context, name string, r io.Reader) error {
	options := plain
	options.PartSize = partBytes
	_, err := s.client.PutObject(ctx, s.bucket, s.prefix+name, r, -1, options)
	return s.wrap(name, err)
}

func (s *s3Store) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	object, err := s.client.GetObject(ctx, s.bucket, s.prefix+name, minio.GetObjectOptions{})
	if err == nil {
		_, err = object.Stat() // the request is made with the first use
	}
	if err != nil {
		return nil, s.wrap(name, err)
	}
	return object, nil
}

func (s *s3Store) List(ctx context.Context, prefix string, f func(name string, bytes int64) error) error {
	for object := range s.client.ListObjects(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}) {
		if object.Err != nil {
			return s.wrap(prefix, object.Err)
		}
		if err := f(strings.TrimPrefix(object.Key, s.prefix), object.Size); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (s *s3Store) Remove(ctx context.Context, name string) error {
	return s.wrap(name, s.client.RemoveObject(ctx, s.bucket, s.prefix+name, minio.RemoveObjectOptions{}))
}

// Lock puts an object that says who holds it, if there is none, and renews it. An old lock is taken over. The request
// names its version, so of two processes that try, one succeeds.
func (s *s3Store) Lock(ctx context.Context) (unlock func() error, lost <-chan struct{}, err error) {
	options := plain
	options.SetMatchETagExcept("*")
	held, err := s.client.StatObject(ctx, s.bucket, s.prefix+lockName, minio.StatObjectOptions{})
	switch {
	case err == nil && time.Since(held.LastModified) < lockStale:
		return nil, nil, fmt.Errorf("%s: %w (since %s; a dead one's lock is taken over after %v)", s, place.ErrLocked, held.LastModified.UTC().Format(time.RFC3339), lockStale)
	case err == nil:
		options = plain
		options.SetMatchETag(held.ETag)
	case !none(err):
		return nil, nil, s.wrap(lockName, err)
	}
	host, _ := os.Hostname() // for human readers
	write := func(ctx context.Context, options minio.PutObjectOptions) (string, error) {
		text := fmt.Sprintf("%s, process %d, %s\n", host, os.Getpid(), time.Now().UTC().Format(time.RFC3339Nano))
		info, err := s.client.PutObject(ctx, s.bucket, s.prefix+lockName, bytes.NewReader([]byte(text)), int64(len(text)), options)
		return info.ETag, err
	}
	tag, err := write(ctx, options)
	if code := minio.ToErrorResponse(err).Code; code == "PreconditionFailed" || code == "ConditionalRequestConflict" {
		return nil, nil, fmt.Errorf("%s: %w", s, place.ErrLocked)
	}
	if err != nil {
		return nil, nil, s.wrap(lockName, err)
	}
	gone, stop, stopped := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(lockRenewed)
		defer ticker.Stop()
		for renewed := time.Now(); ; {
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
			mine := plain
			mine.SetMatchETag(tag)
			ctx, cancel := context.WithTimeout(context.Background(), lockRenewed)
			next, err := write(ctx, mine)
			cancel()
			if err == nil {
				tag, renewed = next, time.Now()
			} else if time.Since(renewed) > lockStale-2*lockRenewed || minio.ToErrorResponse(err).Code == "PreconditionFailed" {
				close(gone)
				return
			}
		}
	}()
	return func() error {
		close(stop)
		<-stopped
		select {
		case <-gone: // it may be another's by now
			return nil
		default:
		}
		return s.Remove(context.WithoutCancel(ctx), lockName)
	}, gone, nil
}
