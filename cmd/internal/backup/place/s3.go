package place

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// s3Reader reads backups in a bucket of a store that speaks S3. It lists and gets objects, and nothing else: package bucket has the
// client that writes. Requests are signed with AWS Signature Version 4, and name the bucket in the path.
//
// A request that fails is made again, and an answer that breaks off goes on where it was: a backup must not count as damaged
// because the network failed for a moment.
type s3Reader struct {
	client   *http.Client
	scheme   string
	endpoint string
	bucket   string
	prefix   string                 // empty, or with a slash behind
	region   atomic.Pointer[string] // an answer may name another one
	keys     s3Keys
	now      func() time.Time
	rest     time.Duration // before the second try; it doubles with each further one
}

// s3Keys are the keys of an account.
type s3Keys struct{ id, secret, session string }

const (
	s3Tries  = 6
	s3Rest   = 500 * time.Millisecond
	s3Within = time.Minute // for the head of an answer
	s3Error  = 64 << 10    // bytes of an answer that says an error
	s3Page   = 16 << 20    // bytes of a page of a list, which has 1000 names of 1 KiB at most
	noBody   = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// errReadOnly: the server changes no backups.
var errReadOnly = errors.New("this client of S3 only reads")

// openS3 opens s3://BUCKET/PREFIX?endpoint=HOST:PORT&region=R&tls=no for reading.
func openS3(text string, env func(name string) string) (*s3Reader, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "s3" || u.Host == "" || u.User != nil {
		return nil, errors.New("want s3://BUCKET/PREFIX?endpoint=HOST:PORT, and keys in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)")
	}
	query := u.Query()
	for name := range query {
		if name != "endpoint" && name != "region" && name != "tls" {
			return nil, fmt.Errorf("%s: got option %q, want endpoint, region or tls", u.Redacted(), name)
		}
	}
	s := &s3Reader{client: &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, ResponseHeaderTimeout: s3Within, MaxIdleConnsPerHost: 4}},
		scheme: "https", endpoint: query.Get("endpoint"), bucket: u.Host, now: time.Now, rest: s3Rest,
		keys: s3Keys{env("AWS_ACCESS_KEY_ID"), env("AWS_SECRET_ACCESS_KEY"), env("AWS_SESSION_TOKEN")}}
	if query.Get("tls") == "no" {
		s.scheme = "http"
	}
	region := cmp.Or(query.Get("region"), "us-east-1") // Amazon's first one, which most other stores take
	s.region.Store(&region)
	if s.endpoint == "" {
		s.endpoint = "s3." + region + ".amazonaws.com"
	}
	if s.prefix = strings.Trim(u.Path, "/"); s.prefix != "" {
		s.prefix += "/"
	}
	return s, nil
}

func (s *s3Reader) String() string {
	return "s3://" + s.bucket + "/" + strings.TrimSuffix(s.prefix, "/")
}

// Get reads an object.
func (s *s3Reader) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	o := &s3Object{store: s, ctx: ctx, name: name}
	if err := o.open(); err != nil {
		return nil, err
	}
	return o, nil
}

// List calls f for every object whose name begins with prefix.
func (s *s3Reader) List(ctx context.Context, prefix string, f func(name string, bytes int64) error) error {
	query := url.Values{"list-type": {"2"}, "prefix": {s.prefix + prefix}}
	for {
		var page struct {
			Contents []struct {
				Key  string
				Size int64
			}
			IsTruncated           bool
			NextContinuationToken string
		}
		answer, err := s.ask(ctx, "", query, 0)
		if err != nil {
			return fmt.Errorf("%s: list %q: %w", s, prefix, err)
		}
		err = xml.NewDecoder(io.LimitReader(answer.Body, s3Page)).Decode(&page)
		if err = errors.Join(err, answer.Body.Close()); err != nil {
			return fmt.Errorf("%s: list %q: %w", s, prefix, err)
		}
		for _, o := range page.Contents {
			if err := f(strings.TrimPrefix(o.Key, s.prefix), o.Size); err != nil {
				return err
			}
		}
		if !page.IsTruncated || page.NextContinuationToken == "" {
			return nil
		}
		query.Set("continuation-token", page.NextContinuationToken)
	}
}

// Put is refused.
func (s *s3Reader) Put(context.Context, string, io.Reader) error { return errReadOnly }

// Remove is refused.
func (s *s3Reader) Remove(context.Context, string) error { return errReadOnly }

// Lock is refused.
func (s *s3Reader) Lock(context.Context) (func() error, <-chan struct{}, error) {
	return nil, nil, errReadOnly
}

// s3Object is an object that is being read.
type s3Object struct {
	store *s3Reader
	ctx   context.Context
	name  string
	body  io.ReadCloser
	off   int64
	fails int // answers that broke off since bytes came last
}

// open asks for the object from off on.
func (o *s3Object) open() error {
	answer, err := o.store.ask(o.ctx, o.store.prefix+o.name, nil, o.off)
	if err != nil {
		return fmt.Errorf("%s/%s: %w", o.store, o.name, err)
	}
	o.body = answer.Body
	return nil
}

// Read reads on, from another answer where one breaks off.
func (o *s3Object) Read(b []byte) (int, error) {
	for {
		n, err := o.body.Read(b)
		o.off += int64(n)
		if n > 0 {
			o.fails = 0
			if err != io.EOF {
				err = nil // it comes again
			}
			return n, err
		}
		if err == nil || err == io.EOF || o.ctx.Err() != nil {
			return 0, err
		}
		if o.fails++; o.fails >= s3Tries {
			return 0, fmt.Errorf("%s/%s: the answer broke off at byte %d: %w", o.store, o.name, o.off, err)
		}
		_ = o.body.Close() // it has failed
		o.body = http.NoBody
		if err := o.open(); err != nil {
			return 0, err
		}
	}
}

func (o *s3Object) Close() error { return o.body.Close() }

// s3Refusal is an error that the store answers.
type s3Refusal struct {
	Status  int    `xml:"-"`
	Code    string `xml:"Code"`
	Message string `xml:"Message"`
	Region  string `xml:"Region"` // where the bucket is, if another region was asked
}

func (e *s3Refusal) Error() string {
	return fmt.Sprintf("status %d, %s: %s", e.Status, e.Code, e.Message)
}

// Is makes a missing object match ErrNone.
func (e *s3Refusal) Is(target error) bool { return target == ErrNone && e.Code == "NoSuchKey" }

// passing tells whether the same request may succeed a moment later.
func (e *s3Refusal) passing() bool { return e.Status >= 500 || e.Status == http.StatusTooManyRequests }

// ask makes a request, some times if need be. key is of an object; empty: of the bucket. Of the object the bytes from off on are asked for.
func (s *s3Reader) ask(ctx context.Context, key string, query url.Values, off int64) (*http.Response, error) {
	rest := s.rest
	for try := 1; ; try++ {
		answer, err := s.askOnce(ctx, key, query, off)
		var refusal *s3Refusal
		switch {
		case err == nil, ctx.Err() != nil, try == s3Tries:
			return answer, err
		case errors.As(err, &refusal) && refusal.Region != "" && refusal.Region != *s.region.Load():
			s.region.Store(&refusal.Region)
			continue
		case errors.As(err, &refusal) && !refusal.passing():
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(rest):
		}
		rest *= 2
	}
}

func (s *s3Reader) askOnce(ctx context.Context, key string, query url.Values, off int64) (*http.Response, error) {
	path := "/" + s.bucket
	if key != "" {
		path += "/" + key
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.scheme+"://"+s.endpoint+escapeS3(path, true)+"?"+canonicalQuery(query), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept-Encoding", "identity") // the bytes as they are stored
	if off > 0 {
		r.Header.Set("Range", "bytes="+strconv.FormatInt(off, 10)+"-")
	}
	if s.keys.id != "" {
		signS3(r, s.keys, *s.region.Load(), s.now().UTC())
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode == http.StatusOK && off == 0 || answer.StatusCode == http.StatusPartialContent && off > 0 {
		return answer, nil
	}
	refusal := &s3Refusal{Status: answer.StatusCode}
	_ = xml.NewDecoder(io.LimitReader(answer.Body, s3Error)).Decode(refusal) // the status says enough
	return nil, errors.Join(refusal, answer.Body.Close())
}

// signS3 adds the headers that a signed request without a body has.
func signS3(r *http.Request, keys s3Keys, region string, now time.Time) {
	r.Header.Set("X-Amz-Date", now.Format("20060102T150405Z"))
	r.Header.Set("X-Amz-Content-Sha256", noBody)
	if keys.session != "" {
		r.Header.Set("X-Amz-Security-Token", keys.session)
	}
	names, lines := []string{"host"}, map[string]string{"host": r.URL.Host}
	for name, values := range r.Header {
		if name = strings.ToLower(name); name == "range" || strings.HasPrefix(name, "x-amz-") {
			names, lines[name] = append(names, name), strings.TrimSpace(values[0])
		}
	}
	slices.Sort(names)
	var headers strings.Builder
	for _, name := range names {
		headers.WriteString(name + ":" + lines[name] + "\n")
	}
	signed := strings.Join(names, ";")
	request := strings.Join([]string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, headers.String(), signed, noBody}, "\n")
	scope := now.Format("20060102") + "/" + region + "/s3/aws4_request"
	sum := sha256.Sum256([]byte(request))
	text := "AWS4-HMAC-SHA256\n" + now.Format("20060102T150405Z") + "\n" + scope + "\n" + hex.EncodeToString(sum[:])
	key := []byte("AWS4" + keys.secret)
	for word := range strings.SplitSeq(scope, "/") {
		key = hmacOf(key, word)
	}
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+keys.id+"/"+scope+",SignedHeaders="+signed+",Signature="+hex.EncodeToString(hmacOf(key, text)))
}

func hmacOf(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = io.WriteString(h, text) // never fails
	return h.Sum(nil)
}

// canonicalQuery is a query as it is signed: sorted, and escaped by the rules of S3.
func canonicalQuery(query url.Values) string {
	var parts []string
	for name, values := range query {
		parts = append(parts, escapeS3(name, false)+"="+escapeS3(values[0], false))
	}
	slices.Sort(parts)
	return strings.Join(parts, "&")
}

// escapeS3 escapes all bytes but letters, digits and "-._~"; slashes stay in a path.
func escapeS3(text string, path bool) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~", c) >= 0, c == '/' && path:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

var _ Store = (*s3Reader)(nil)

// OpenRead opens a place with backups for reading: a directory, or s3://BUCKET/PREFIX?endpoint=HOST:PORT (&region=R, &tls=no), with keys
// in the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN.
func OpenRead(path string) (Store, error) {
	if strings.HasPrefix(path, "s3://") {
		return openS3(path, os.Getenv)
	}
	if !HasBackups(path) {
		return nil, fmt.Errorf("%s has no backups", path)
	}
	return OpenDir(path)
}

// CheckRead tells why OpenRead cannot open a path, as far as its text says; nil: it may.
func CheckRead(path string) error {
	if strings.HasPrefix(path, "s3://") {
		_, err := openS3(path, func(string) string { return "" })
		return err
	}
	if scheme, _, found := strings.Cut(path, "://"); found {
		return fmt.Errorf("got a place of kind %q, want a directory or s3://BUCKET/PREFIX", scheme)
	}
	return nil
}
