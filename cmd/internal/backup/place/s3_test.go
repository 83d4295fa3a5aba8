package place

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestSignS3 signs the examples of Amazon's API reference ("Signature Calculations for the Authorization Header").
func TestSignS3(t *testing.T) {
	keys := s3Keys{id: "AKIAIOSFODNN7EXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
	at := time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct{ url, span, want string }{
		{"/test.txt", "bytes=0-9", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
		{"/?lifecycle=", "", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
		{"/?max-keys=2&prefix=J", "", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
	} {
		r, err := http.NewRequest(http.MethodGet, "https://examplebucket.s3.amazonaws.com"+c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.span != "" {
			r.Header.Set("Range", c.span)
		}
		signS3(r, keys, "us-east-1", at)
		if _, got, _ := strings.Cut(r.Header.Get("Authorization"), "Signature="); got != c.want {
			t.Errorf("%s: signature %s, want %s", c.url, got, c.want)
		}
	}
}

// troubledBucket answers requests of a reader: each object breaks off in the middle once, and each second request fails.
type troubledBucket struct {
	t        *testing.T
	objects  map[string]string
	requests int
	broken   map[string]bool
}

func (b *troubledBucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=id/") || r.Header.Get("X-Amz-Security-Token") != "session" {
		b.t.Errorf("%s: the request is not signed: %q", r.URL, r.Header)
	}
	if b.requests++; b.requests%2 == 1 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if !strings.Contains(r.Header.Get("Authorization"), "/elsewhere/s3/") {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, "<Error><Code>AuthorizationHeaderMalformed</Code><Region>elsewhere</Region></Error>")
		return
	}
	key, _ := strings.CutPrefix(r.URL.Path, "/posts/")
	if r.URL.Path == "/posts" { // a page has one object
		page := "<ListBucketResult><Contents><Key>a/b/one</Key><Size>3</Size></Contents><IsTruncated>true</IsTruncated><NextContinuationToken>n=/+ 2</NextContinuationToken></ListBucketResult>"
		if r.URL.Query().Get("continuation-token") == "n=/+ 2" {
			page = "<ListBucketResult><Contents><Key>a/b/two</Key><Size>5</Size></Contents></ListBucketResult>"
		}
		fmt.Fprint(w, page)
		return
	}
	text, ok := b.objects[key]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, "<Error><Code>NoSuchKey</Code></Error>")
		return
	}
	if !b.broken[key] {
		b.broken[key] = true
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		fmt.Fprint(w, text[:len(text)/2])
		return // the server closes the connection
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader([]byte(text)))
}

// TestReadS3 reads from a bucket of another region whose requests fail now and then, and whose answers break off.
func TestReadS3(t *testing.T) {
	b := &troubledBucket{t: t, broken: map[string]bool{}, objects: map[string]string{"a/b/one": "one", "a/b/wide =+name": strings.Repeat("0123456789", 1<<16)}}
	server := httptest.NewServer(b)
	defer server.Close()
	env := map[string]string{"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "session"}
	s, err := openS3("s3://posts/a/b?tls=no&endpoint="+strings.TrimPrefix(server.URL, "http://"), func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	s.rest = time.Millisecond
	for name, want := range b.objects {
		r, err := s.Get(t.Context(), strings.TrimPrefix(name, "a/b/"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || string(got) != want {
			t.Errorf("%s: got %d bytes, %v, want %d", name, len(got), err, len(want))
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Get(t.Context(), "none"); !errors.Is(err, ErrNone) {
		t.Errorf("a missing object: %v", err)
	}
	var names []string
	if err := s.List(t.Context(), "", func(name string, n int64) error { names = append(names, fmt.Sprint(name, n)); return nil }); err != nil || fmt.Sprint(names) != "[one3 two5]" {
		t.Errorf("listed %q, %v", names, err)
	}
	if err := errors.Join(s.Put(t.Context(), "x", nil), s.Remove(t.Context(), "x")); !errors.Is(err, errReadOnly) {
		t.Errorf("it writes: %v", err)
	}
	if _, _, err := s.Lock(t.Context()); !errors.Is(err, errReadOnly) {
		t.Errorf("it locks: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Get(ctx, "one"); !errors.Is(err, context.Canceled) {
		t.Errorf("a reading that was given up: %v", err)
	}
}

// TestCheckRead: a text that names no place is refused before anything is read, and no password is shown.
func TestCheckRead(t *testing.T) {
	for _, text := range []string{"", "/backups", "s3://bucket", "s3://bucket/x/y?endpoint=host:1&region=r&tls=no"} {
		if err := CheckRead(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"s3://", "s3://user:pass@bucket/x", "s3://bucket/x?nosuch=1", "ftp://x"} {
		if err := CheckRead(text); err == nil || strings.Contains(err.Error(), "pass@") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := OpenRead(t.TempDir()); err == nil {
		t.Error("a directory without backups is opened")
	}
}
