package registry_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/counterd/counterd/cmd/internal/registry"
	"github.com/counterd/counterd/cmd/internal/topology"
)

// shortTokens is an etcd with users. A token is good for one read. A watch is refused in the moment in which a read is.
type shortTokens struct {
	pb.UnimplementedAuthServer
	pb.UnimplementedKVServer
	pb.UnimplementedWatchServer

	mu      sync.Mutex
	tokens  int
	good    string
	refused chan struct{}
}

func (s *shortTokens) Authenticate(context.Context, *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens++
	s.good = fmt.Sprint(s.tokens)
	return &pb.AuthenticateResponse{Token: s.good}, nil
}

func (s *shortTokens) Range(ctx context.Context, _ *pb.RangeRequest) (*pb.RangeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	md, _ := metadata.FromIncomingContext(ctx)
	if got := md.Get(rpctypes.TokenFieldNameGRPC); len(got) != 1 || got[0] != s.good {
		select {
		case s.refused <- struct{}{}:
			time.Sleep(rand.N(300 * time.Microsecond))
		default:
		}
		return nil, rpctypes.ErrGRPCInvalidAuthToken
	}
	s.good = ""
	return &pb.RangeResponse{Header: &pb.ResponseHeader{Revision: 1}}, nil
}

func (s *shortTokens) Watch(w pb.Watch_WatchServer) error {
	for {
		req, err := w.Recv()
		if err != nil {
			return err
		}
		if req.GetCreateRequest() == nil {
			continue
		}
		select {
		case <-s.refused:
			time.Sleep(rand.N(300 * time.Microsecond))
		case <-w.Context().Done():
			return w.Context().Err()
		}
		if err := w.Send(&pb.WatchResponse{Header: &pb.ResponseHeader{}, WatchId: -1, Created: true, Canceled: true,
			CancelReason: rpctypes.ErrGRPCInvalidAuthToken.Error()}); err != nil {
			return err
		}
	}
}

// TestTokenAndWatchRefused: etcd refuses a token and a watch at once, as it does behind a restart. The client library's Close may wait for
// ever then, and no request may wait with it.
func TestTokenAndWatchRefused(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	etcd, server := &shortTokens{refused: make(chan struct{})}, grpc.NewServer()
	pb.RegisterAuthServer(server, etcd)
	pb.RegisterKVServer(server, etcd)
	pb.RegisterWatchServer(server, etcd)
	go server.Serve(l)
	defer server.Stop()
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := registry.OpenEtcdStore(registry.EtcdConfig{Endpoints: []string{"http://" + l.Addr().String()}, User: "counterd", PasswordFile: password}, "weibo")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var watches sync.WaitGroup
	var ended atomic.Int64
	watches.Go(func() {
		for ctx.Err() == nil {
			_ = store.Watch(ctx, 1, func(int64, []topology.KV) error { return nil }) // each is refused
			ended.Add(1)
		}
	})
	before := int64(0) // watches that ended during the first reads: another one does
	for i := 0; i < 800 || ended.Load() == before; i++ {
		if _, _, err := store.Get(ctx); err != nil {
			t.Fatalf("read %d, %d watches ended: %v", i, ended.Load(), err)
		}
		if i < 800 {
			before = ended.Load()
		}
	}
	cancel()
	watches.Wait()
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}
