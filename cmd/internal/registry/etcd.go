package registry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/sleep"
)

const (
	dialTimeout = 2 * time.Second
	// attempt is after how long a read is sent again, to another member: this one may be stopped.
	attempt = 2 * time.Second
	// A connection on which sent data are not acknowledged for deadAfter is closed; a silent connection gets a ping each
	// pingEach, as often as etcd allows (grpc-keepalive-min-time is 5 s, gRPC's least 10 s).
	pingEach  = 10 * time.Second
	deadAfter = 2 * time.Second
	// A member that is away is tried again after this at the latest; gRPC's own would be 2 minutes.
	redialMax = time.Second
	// A watch is asked each progressEach whether it still is one, and is begun anew when it says nothing for silentAfter.
	progressEach = time.Second
	silentAfter  = 4 * time.Second
)

// etcd is a Store in etcd. Its client is made when it is needed first: with a user's name that asks etcd, which may be
// away.
type etcd struct {
	config clientv3.Config
	prefix string

	ctx    context.Context // ends when it is closed
	cancel context.CancelFunc
	open   chan *clientv3.Client // holds the client, or nil before there is one
	stream chan *renewals        // holds the stream of renewals, or nil
}

// renewals is a stream on which a lease's renewal is asked and answered, one at a time. The client library's own either
// does not say when a renewal was sent, or asks for the password's check with each: 60 ms of etcd's CPU.
type renewals struct {
	pb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc
}

// OpenEtcd is the cluster of a name in etcd. etcd may be away: calls fail until it is there. The error is one of the
// configuration.
func OpenEtcd(conf EtcdConfig, name string) (Registry, error) {
	store, err := OpenEtcdStore(conf, name)
	if err != nil {
		return nil, err
	}
	return New(store), nil
}

// OpenEtcdStore is OpenEtcd without what New makes of it.
func OpenEtcdStore(conf EtcdConfig, name string) (Store, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	e := &etcd{prefix: "/counterd/" + name + "/", open: make(chan *clientv3.Client, 1), stream: make(chan *renewals, 1)}
	e.config = clientv3.Config{Endpoints: conf.Endpoints, Username: conf.User, DialTimeout: dialTimeout,
		DialKeepAliveTime: pingEach, DialKeepAliveTimeout: deadAfter, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: dialTimeout,
			Backoff: backoff.Config{BaseDelay: redialMax / 10, Multiplier: 1.6, Jitter: 0.2, MaxDelay: redialMax}})},
		// The library would repeat a transaction where etcd says that its time was over, and not know that it had
		// happened. Requests that may be repeated are repeated here.
		MaxUnaryRetries: 1}
	var err error
	if e.config.TLS, err = TLS(conf); err != nil {
		return nil, err
	}
	if e.config.Password, err = conf.password(); err != nil {
		return nil, err
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.config.Context = e.ctx
	e.open <- nil
	e.stream <- nil
	return e, nil
}

// take takes the value of a channel of capacity one.
func take[T any](ctx context.Context, from chan T) (v T, err error) {
	select {
	case v = <-from:
		return v, nil
	case <-ctx.Done():
		return v, ctx.Err()
	}
}

func (e *etcd) client(ctx context.Context) (*clientv3.Client, error) {
	c, err := take(ctx, e.open)
	if err != nil {
		return nil, err
	}
	defer func() { e.open <- c }()
	if e.ctx.Err() != nil {
		return nil, ErrClosed
	}
	if c == nil {
		if c, err = e.connect(ctx); err != nil {
			c = nil
		}
	}
	return c, err
}

// read reads every key. The library's own waits for a connection, and does not say why there is none.
func (e *etcd) read(ctx context.Context, c *clientv3.Client) (*pb.RangeResponse, error) {
	return pb.NewKVClient(c.ActiveConnection()).Range(ctx, &pb.RangeRequest{Key: []byte(e.prefix),
		RangeEnd: []byte(clientv3.GetPrefixRangeEnd(e.prefix))}, grpc.WaitForReady(false), grpc.MaxCallRecvMsgSize(math.MaxInt32))
}

// ask calls with a client, and once more with another where the token has run out.
func ask[T any](ctx context.Context, e *etcd, f func(context.Context, *clientv3.Client) (T, error)) (v T, err error) {
	c, err := e.client(ctx)
	if err != nil {
		return v, &unsent{err}
	}
	if v, err = f(ctx, c); !e.badToken(err) {
		return v, err
	}
	if c, err = e.replace(ctx, c); err != nil {
		return v, &unsent{err}
	}
	return f(ctx, c)
}

// unsent is the error of a request that was not made.
type unsent struct{ err error }

func (u *unsent) Error() string { return u.err.Error() }
func (u *unsent) Unwrap() error { return u.err }

// notDone tells whether an error says that etcd has not done what it was asked, and will not. Whatever is not known for
// sure is not: connections lost, times over, a leader that changed.
func notDone(err error) bool {
	var u *unsent
	if errors.As(err, &u) {
		return true
	}
	return refused(err)
}

// refused tells whether etcd has understood what it was asked, and does not do it.
func refused(err error) bool {
	code := status.Code(err)
	var known rpctypes.EtcdError
	if errors.As(err, &known) {
		code = known.Code()
	}
	switch code {
	case codes.InvalidArgument, codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.ResourceExhausted,
		codes.OutOfRange, codes.Unimplemented:
		return true
	}
	return false
}

func (e *etcd) Get(ctx context.Context) (revision int64, kvs []topology.KV, err error) {
	var why error // of an attempt, not that the time is over
	for {
		once, cancel := context.WithTimeout(ctx, attempt)
		resp, err := ask(once, e, func(ctx context.Context, c *clientv3.Client) (*pb.RangeResponse, error) {
			resp, err := e.read(ctx, c)
			return resp, rpctypes.Error(err)
		})
		if err == nil {
			cancel()
			for _, kv := range resp.Kvs {
				kvs = append(kvs, e.kv(kv))
			}
			return resp.Header.Revision, kvs, nil
		}
		if code := status.Code(err); once.Err() == nil || code != codes.DeadlineExceeded && code != codes.Canceled && !errors.Is(err, once.Err()) {
			why = err
		}
		cancel()
		if refused(err) || !sleep.For(ctx, attempt/20) {
			return 0, nil, unanswered(ctx, why)
		}
	}
}

// unanswered is the error of a failed read: the errors of its attempts, and that its time is over.
func unanswered(ctx context.Context, why error) error {
	if why == nil {
		return fmt.Errorf("etcd does not answer: %w", ctx.Err())
	}
	if _, ok := status.FromError(why); ok {
		why = errors.New("etcd: " + status.Convert(why).Message())
	}
	if ctx.Err() == nil {
		return why
	}
	return fmt.Errorf("%w: %w", why, ctx.Err())
}

func (e *etcd) kv(kv *mvccpb.KeyValue) topology.KV {
	value := kv.Value
	if value == nil {
		value = []byte{} // nil is a key that was removed
	}
	return topology.KV{Key: strings.TrimPrefix(string(kv.Key), e.prefix), Value: value, Revision: kv.ModRevision}
}

func (e *etcd) Watch(ctx context.Context, from int64, changed func(int64, []topology.KV) error) error {
	c, err := e.client(ctx)
	if err != nil {
		return err
	}
	// A member that has lost the others says so, instead of nothing.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	late := time.AfterFunc(silentAfter, cancel) // by a client that is discarded it may hang
	responses := c.Watch(ctx, e.prefix, clientv3.WithPrefix(), clientv3.WithRev(from))
	late.Stop()
	tick := time.NewTicker(progressEach)
	defer tick.Stop()
	for heard := time.Now(); ; {
		select {
		case resp, ok := <-responses:
			if err := resp.Err(); err != nil {
				return err
			}
			if !ok {
				return errors.Join(errors.New("the watch is lost"), ctx.Err())
			}
			// A restored etcd accepts a watch from a future revision, and is silent until then.
			if at := resp.Header.Revision; at < from-1 {
				return &RevisionError{at, from - 1}
			}
			heard = time.Now()
			var kvs []topology.KV
			for _, ev := range resp.Events {
				kv := e.kv(ev.Kv)
				if ev.Type == clientv3.EventTypeDelete {
					kv.Value = nil
				}
				kvs = append(kvs, kv)
			}
			if len(kvs) > 0 {
				if err := changed(kvs[len(kvs)-1].Revision, kvs); err != nil {
					return err
				}
			}
		case <-tick.C:
			if silent := time.Since(heard); silent > silentAfter {
				return fmt.Errorf("the watch was silent for %s", silent.Round(time.Second))
			}
			once, cancel := context.WithTimeout(ctx, progressEach)
			_ = c.RequestProgress(once) // that nothing comes tells
			cancel()
		}
	}
}

func (e *etcd) Txn(ctx context.Context, change topology.Change) error {
	var cmps []clientv3.Cmp
	var ops, reads []clientv3.Op
	for _, want := range change.Compare {
		key := e.prefix + want.Key
		cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(key), "=", want.Revision))
		reads = append(reads, clientv3.OpGet(key, clientv3.WithKeysOnly()))
	}
	for _, kv := range change.Put {
		ops = append(ops, clientv3.OpPut(e.prefix+kv.Key, string(kv.Value)))
	}
	for _, key := range change.Delete {
		ops = append(ops, clientv3.OpDelete(e.prefix+key))
	}
	resp, err := ask(ctx, e, func(ctx context.Context, c *clientv3.Client) (*clientv3.TxnResponse, error) {
		return c.Txn(ctx).If(cmps...).Then(ops...).Else(reads...).Commit()
	})
	switch {
	case err == nil && resp.Succeeded:
		return nil
	case err == nil:
		for i, want := range change.Compare {
			got := int64(0)
			if kvs := resp.Responses[i].GetResponseRange().Kvs; len(kvs) > 0 {
				got = kvs[0].ModRevision
			}
			if got != want.Revision {
				return fmt.Errorf("key %s has revision %d, want %d: %w", want.Key, got, want.Revision, ErrConflict)
			}
		}
		return ErrConflict
	case notDone(err):
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnknown, err)
}

func (e *etcd) Grant(ctx context.Context, ttl time.Duration) (Granted, error) {
	return ask(ctx, e, func(ctx context.Context, c *clientv3.Client) (Granted, error) {
		resp, err := c.Grant(ctx, int64(ttl/time.Second))
		if err != nil {
			return Granted{}, err
		}
		return Granted{int64(resp.ID), time.Duration(resp.TTL) * time.Second}, nil
	})
}

func (e *etcd) Renew(ctx context.Context, id int64) (time.Duration, error) {
	s, err := take(ctx, e.stream)
	if err != nil {
		return 0, err
	}
	kept := s
	defer func() { e.stream <- kept }()
	if s == nil {
		if s, err = e.renewals(ctx); err != nil {
			return 0, err
		}
	}
	// Behind an error, or a time over, the stream is of no use: an answer that comes later would be taken for another.
	stop := context.AfterFunc(ctx, s.cancel)
	kept = nil
	err = s.Send(&pb.LeaseKeepAliveRequest{ID: id})
	var resp *pb.LeaseKeepAliveResponse
	if resp, err = recv(s, err); err != nil || !stop() {
		s.cancel()
		return 0, errors.Join(err, ctx.Err())
	}
	kept = s
	if resp.TTL <= 0 {
		return 0, ErrLost
	}
	return time.Duration(resp.TTL) * time.Second, nil
}

// recv is the answer to the request sent. Why sending failed is told by receiving.
func recv(s *renewals, sent error) (*pb.LeaseKeepAliveResponse, error) {
	resp, err := s.Recv()
	if err == nil {
		err = sent
	}
	return resp, err
}

func (e *etcd) renewals(ctx context.Context) (*renewals, error) {
	c, err := e.client(ctx)
	if err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(e.ctx)
	stop := context.AfterFunc(ctx, cancel) // opening it may ask for a token
	stream, err := pb.NewLeaseClient(c.ActiveConnection()).LeaseKeepAlive(life)
	if !stop() || err != nil {
		cancel()
		return nil, errors.Join(err, ctx.Err())
	}
	return &renewals{stream, cancel}, nil
}

func (e *etcd) PutLeased(ctx context.Context, kv topology.KV, id int64) (Leased, error) {
	key := e.prefix + kv.Key
	resp, err := ask(ctx, e, func(ctx context.Context, c *clientv3.Client) (*clientv3.TxnResponse, error) {
		return c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", kv.Revision)).
			Then(clientv3.OpPut(key, string(kv.Value), clientv3.WithLease(clientv3.LeaseID(id)))).
			Else(clientv3.OpGet(key, clientv3.WithKeysOnly())).Commit()
	})
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return Leased{}, ErrLost
	case err != nil:
		return Leased{}, err
	case resp.Succeeded:
		return Leased{Written: true, Revision: resp.Header.Revision, Lease: id}, nil
	}
	if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
		return Leased{Revision: kvs[0].ModRevision, Lease: kvs[0].Lease}, nil
	}
	return Leased{}, nil
}

func (e *etcd) Revoke(ctx context.Context, id int64) error {
	_, err := ask(ctx, e, func(ctx context.Context, c *clientv3.Client) (*clientv3.LeaseRevokeResponse, error) {
		return c.Revoke(ctx, clientv3.LeaseID(id))
	})
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return ErrLost
	}
	return err
}

func (e *etcd) Alarms(ctx context.Context) (list []string, err error) {
	resp, err := ask(ctx, e, func(ctx context.Context, c *clientv3.Client) (*clientv3.AlarmResponse, error) {
		return c.AlarmList(ctx)
	})
	if err != nil {
		return nil, unanswered(ctx, err)
	}
	for _, alarm := range resp.Alarms {
		text := NoSpaceText
		if alarm.Alarm != pb.AlarmType_NOSPACE {
			text = fmt.Sprintf("etcd has the alarm %s", alarm.Alarm)
		}
		list = append(list, fmt.Sprintf("%s (etcd's member %x)", text, alarm.MemberID))
	}
	return list, nil
}

func (e *etcd) Close() error {
	e.cancel()
	c := <-e.open
	e.open <- nil
	if c != nil {
		return discard(c)
	}
	return nil
}
