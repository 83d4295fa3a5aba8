package registry

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// connect makes a client. Where etcd has users it gets a token, by a connection of its own. The library's own way to get a token
// shows the old token to etcd: etcd 3.4 refuses it after a restart, and the library asks again and again, as fast as it can.
func (e *etcd) connect(ctx context.Context) (*clientv3.Client, error) {
	config := e.config
	if deadline, ok := ctx.Deadline(); ok {
		config.DialTimeout = max(min(dialTimeout, time.Until(deadline)), time.Millisecond)
	}
	if config.Username == "" {
		return clientv3.New(config)
	}
	user := pb.AuthenticateRequest{Name: config.Username, Password: config.Password}
	config.Username, config.Password = "", ""
	c, err := clientv3.New(config)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	resp, err := pb.NewAuthClient(c.ActiveConnection()).Authenticate(ctx, &user, grpc.WaitForReady(false))
	switch err = rpctypes.Error(err); {
	case err == nil:
		config.Token = resp.Token
	case status.Code(err) == codes.Unavailable:
		return nil, errors.New("etcd: " + status.Convert(err).Message())
	case !errors.Is(err, rpctypes.ErrAuthNotEnabled):
		return nil, err
	}
	return clientv3.New(config)
}

// replace makes a client with a new token, unless somebody else has.
func (e *etcd) replace(ctx context.Context, old *clientv3.Client) (*clientv3.Client, error) {
	c, err := take(ctx, e.open)
	if err != nil {
		return nil, err
	}
	if c == old {
		_ = discard(old) // watches and renewals by it begin again
		c = nil
	}
	e.open <- c
	return e.client(ctx)
}

// discard closes a client. The library's Close waits for ever for a watch that etcd refuses in the same moment, as the watch's stream
// may see the end of the client first. So the connection is closed here, and nobody waits for the rest.
func discard(c *clientv3.Client) error {
	err := c.ActiveConnection().Close()
	go c.Close()
	return err
}

// badToken tells whether an error says that etcd has refused the token: nothing was done.
func (e *etcd) badToken(err error) bool {
	return e.config.Username != "" && (errors.Is(err, rpctypes.ErrInvalidAuthToken) || errors.Is(err, rpctypes.ErrAuthOldRevision) || errors.Is(err, rpctypes.ErrUserEmpty))
}
