// Scenario: backups in a bucket of S3, and the same on a directory.

package backup

import (
	"github.com/counterd/counterd/cmd/internal/backup/bucket"

	"bufio"
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeBucket is as much of S3 as a backup needs, by Amazon's API reference: objects put whole or in parts, conditions on
// puts, lists by pages.
type fakeBucket struct {
	mu      sync.Mutex
	objects map[string]kept
	parts   map[string]map[int][]byte // by upload
	now     func() time.Time
	puts    int
	uploads int
	deny    func(r *http.Request) bool // answers 503
}

type kept struct {
	data []byte
	at   time.Time
}

func (k kept) tag() string { sum := md5.Sum(k.data); return hex.EncodeToString(sum[:]) }

// serveBucket starts one, and returns a store in it.
func serveBucket(t *testing.T) (*fakeBucket, Store) {
	t.Helper()
	b := &fakeBucket{objects: map[string]kept{}, parts: map[string]map[int][]byte{}, now: time.Now}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	s, err := bucket.Open("s3://posts/a/b?endpoint=" + strings.TrimPrefix(server.URL, "http://") + "&tls=no&region=here")
	if err != nil {
		t.Fatal(err)
	}
	return b, s
}

func (b *fakeBucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fail := func(status int, code string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, code)
	}
	if b.deny != nil && b.deny(r) {
		fail(403, "AccessDenied") // not an error that is retried
		return
	}
	name, ok := strings.CutPrefix(r.URL.Path, "/posts")
	name = strings.TrimPrefix(name, "/")
	query := r.URL.Query()
	if !ok {
		fail(404, "NoSuchBucket")
		return
	}
	switch {
	case r.Method == "GET" && name == "" && query.Get("list-type") == "2":
		b.list(w, query.Get("prefix"), query.Get("continuation-token"))
	case r.Method == "GET" || r.Method == "HEAD":
		k, ok := b.objects[name]
		if !ok {
			fail(404, "NoSuchKey")
			return
		}
		w.Header().Set("ETag", `"`+k.tag()+`"`)
		w.Header().Set("Last-Modified", k.at.UTC().Format(http.TimeFormat))
		http.ServeContent(w, r, "", k.at, bytes.NewReader(k.data))
	case r.Method == "POST" && query.Has("uploads"):
		b.uploads++
		id := strconv.Itoa(b.uploads)
		b.parts[id] = map[int][]byte{}
		fmt.Fprintf(w, "<InitiateMultipartUploadResult><Bucket>posts</Bucket><Key>%s</Key><UploadId>%s</UploadId></InitiateMultipartUploadResult>", name, id)
	case r.Method == "POST" && query.Has("uploadId"):
		var whole struct {
			Part []struct{ PartNumber int }
		}
		if xml.NewDecoder(r.Body).Decode(&whole) != nil {
			fail(400, "MalformedXML")
			return
		}
		var data []byte
		for _, p := range whole.Part {
			data = append(data, b.parts[query.Get("uploadId")][p.PartNumber]...)
		}
		b.objects[name] = kept{data, b.now()}
		fmt.Fprintf(w, "<CompleteMultipartUploadResult><Bucket>posts</Bucket><Key>%s</Key><ETag>%q</ETag></CompleteMultipartUploadResult>", name, b.objects[name].tag())
	case r.Method == "PUT":
		old, there := b.objects[name]
		if r.Header.Get("If-None-Match") == "*" && there || r.Header.Get("If-Match") != "" && strings.Trim(r.Header.Get("If-Match"), `"`) != old.tag() {
			fail(412, "PreconditionFailed")
			return
		}
		data, err := body(r)
		if err != nil {
			fail(400, "IncompleteBody")
			return
		}
		b.puts++
		k := kept{data, b.now()}
		if id := query.Get("uploadId"); id != "" {
			n, _ := strconv.Atoi(query.Get("partNumber"))
			b.parts[id][n] = data
		} else {
			b.objects[name] = k
		}
		w.Header().Set("ETag", `"`+k.tag()+`"`)
	case r.Method == "DELETE" && query.Has("uploadId"):
		delete(b.parts, query.Get("uploadId"))
		w.WriteHeader(204)
	case r.Method == "DELETE":
		delete(b.objects, name)
		w.WriteHeader(204)
	default:
		fail(405, "MethodNotAllowed")
	}
}

// list answers pages of two names, so that there are pages.
func (b *fakeBucket) list(w io.Writer, prefix, after string) {
	var names []string
	for name := range b.objects {
		if strings.HasPrefix(name, prefix) && name > after {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	more := len(names) > 2
	names = names[:min(2, len(names))]
	fmt.Fprintf(w, "<ListBucketResult><Name>posts</Name><IsTruncated>%v</IsTruncated>", more)
	for _, name := range names {
		fmt.Fprintf(w, "<Contents><Key>%s</Key><Size>%d</Size><ETag>x</ETag><LastModified>%s</LastModified></Contents>", name, len(b.objects[name].data),
			b.objects[name].at.UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	if more {
		fmt.Fprintf(w, "<NextContinuationToken>%s</NextContinuationToken>", names[1])
	}
	fmt.Fprint(w, "</ListBucketResult>")
}

// body reads a request's, which comes in signed chunks where there is no TLS.
func body(r *http.Request) ([]byte, error) {
	if !strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		return io.ReadAll(r.Body)
	}
	var out []byte
	for in := bufio.NewReader(r.Body); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		digits, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		n, err := strconv.ParseUint(digits, 16, 31)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return out, nil
		}
		chunk := make([]byte, n+2)
		if _, err := io.ReadFull(in, chunk); err != nil {
			return nil, err
		}
		out = append(out, chunk[:n]...)
	}
}

// TestStores runs the same on a directory and on a bucket.
func TestStores(t *testing.T) {
	_, s3 := serveBucket(t)
	dir, err := bucket.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]Store{"directory": dir, "bucket": s3} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			large := bytes.Repeat([]byte("0123456789abcdef"), 3<<20/2) // one and a half parts
			for name, data := range map[string][]byte{"objects/aa/1": []byte("one"), "objects/bb/2": large, "objects/bb/3": {}, "backups/x": []byte("x")} {
				if err := s.Put(ctx, name, bytes.NewReader(data)); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				r, err := s.Get(ctx, name)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(r)
				if r.Close(); err != nil || !bytes.Equal(got, data) {
					t.Errorf("%s: %d bytes, %v, want %d", name, len(got), err, len(data))
				}
			}
			if err := s.Put(ctx, "objects/aa/1", io.MultiReader(strings.NewReader("half"), failing{})); !errors.Is(err, errFailing) {
				t.Errorf("a reader that fails: %v", err)
			}
			if _, err := s.Get(ctx, "objects/aa/9"); !errors.Is(err, ErrNone) {
				t.Errorf("an object that is not there: %v", err)
			}
			if err := s.Remove(ctx, "objects/bb/2"); err != nil {
				t.Error(err)
			}
			if err := s.Remove(ctx, "objects/bb/2"); err != nil {
				t.Errorf("twice: %v", err)
			}
			var names []string
			if err := s.List(ctx, "objects/", func(name string, n int64) error { names = append(names, fmt.Sprint(name, " ", n)); return nil }); err != nil {
				t.Error(err)
			}
			if slices.Sort(names); !slices.Equal(names, []string{"objects/aa/1 3", "objects/bb/3 0"}) {
				t.Errorf("got %q", names)
			}
			unlock, _, err := s.Lock(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := s.Lock(ctx); !errors.Is(err, ErrLocked) {
				t.Errorf("a second lock: %v", err)
			}
			if err := unlock(); err != nil {
				t.Error(err)
			}
			if unlock, _, err = s.Lock(ctx); err != nil {
				t.Fatal(err)
			}
			if err := unlock(); err != nil {
				t.Error(err)
			}
		})
	}
}

var errFailing = errors.New("no more")

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errFailing }

// TestDeadLock: the lock of a dead process is taken over when it is old, by one of two processes that try.
func TestDeadLock(t *testing.T) {
	b, s := serveBucket(t)
	b.now = func() time.Time { return time.Now().Add(-time.Hour) }
	if _, _, err := s.Lock(t.Context()); err != nil { // and dies
		t.Fatal(err)
	}
	b.mu.Lock()
	b.now = time.Now
	b.mu.Unlock()
	held := make(chan error)
	for range 4 {
		go func() {
			_, _, err := s.Lock(context.Background())
			held <- err
		}()
	}
	won := 0
	for range 4 {
		if err := <-held; err == nil {
			won++
		} else if !errors.Is(err, ErrLocked) {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d have the lock", won)
	}
}

func TestOpen(t *testing.T) {
	for _, place := range []string{"s3://", "s3://user:pass@bucket/x", "s3://bucket/x?nosuch=1", "ftp://x", "s3://bucket/x?endpoint=http://a/b"} {
		if s, err := bucket.Open(place); err == nil || strings.Contains(err.Error(), "pass@") {
			t.Errorf("%s: %v, %v", place, s, err)
		}
	}
}
