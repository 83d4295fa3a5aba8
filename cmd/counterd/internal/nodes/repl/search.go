package repl

import (
	"context"
	"errors"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/sleep"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/past"
)

// Search finds other nodes with the data of a directory that is being opened.
type Search interface {
	// Missing returns a *format.CorruptError if the log lacks its end, and no file of the directory tells so. by has the end then.
	// While a replica that has more of the log (past.LongerLog) does not answer, Missing waits. Without an error, by is the node that
	// is to be followed, or nobody.
	Missing(ctx context.Context) (by Helper, err error)
	// Find returns a node that has the data of a damaged directory. It looks for as long as it likes. With frames, the log alone is damaged as
	// far as is known, and a node that cannot open its data helps, too (Helper.Closed). ErrHoldsNothing says that no node is needed.
	Find(ctx context.Context, frames bool) (Helper, error)
	// InCluster tells whether the node is one of a cluster: then etcd alone says whom it follows.
	InCluster() bool
	// Members returns the other nodes of the node's shard in the cluster, also while none leads, as far as etcd says so now.
	Members(ctx context.Context) []Address
	// InSync returns nil if etcd says now that the node is in sync, and that its directory is no older copy.
	InSync(ctx context.Context) error
	// Await returns a context that ends with ctx, or when the node is told whom to follow; with alone, also when it is told to lead. The
	// caller calls end, which returns what it was told.
	Await(ctx context.Context, alone bool) (_ context.Context, end func() Told)
}

// ErrHoldsNothing: a damaged directory holds nothing, and its node has never taken part in its cluster, or is of no shard. The directory is opened as a new one.
var ErrHoldsNothing = errors.New("this node is of no shard, and its directory holds nothing")

// Told is the word of REPLICAOF to a node that is being opened. The zero value is nothing.
type Told struct {
	Follow Address // the primary
	Alone  bool    // NO ONE
}

// helper is the node that REPLICAOF names.
func (t Told) helper() Helper { return Helper{From: t.Follow, Parts: t.Follow, Named: true} }

// Helper is a node that has the data of another one.
type Helper struct {
	From Address       // zero: the node knows its primary
	Lead format.ReplID // the helper is a replica, in that term, of the node that it helps; zero: it is not
	End  uint64        // of the helper's log, where Lead is set

	// Parts is a node that may have parts of the data: the primary that the node is to follow. Zero: nobody is known, or From is it.
	Parts Address
	Named bool // by REPLICAOF: no other node is looked for

	// Closed says that From cannot open its data, and gives the frames of its log alone.
	Closed bool

	// Restored says which backup stands beside the damaged files (package restore), whose log goes on in the term Lead, and
	// the changes that are lost. Empty: another node has the data.
	Restored string
}

// openAnew opens a damaged directory that holds nothing as that of a new node. Its files are kept, under other names.
func (h *Healer) openAnew(dir string, damage error, open func() (*counter.Store, error)) (*counter.Store, error) {
	h.node.logger.Error("the data directory is damaged, and holds nothing, as the node is of no shard; setting its files aside", "dir", dir, "error", damage)
	if err := past.RenewEmpty(h.node.fs, dir); err != nil {
		return nil, errors.Join(damage, err)
	}
	return open()
}

// A replica outside of a cluster that cannot open its data sets nothing aside before its primary has opened its own. The primary may have lost the
// end of its log, and no other node may have that end but this one:
//
//	this node                                     its primary
//	cannot open its data                          lost power
//	asks for its role                    -->      LOADING: it asks how far the logs of its replicas go
//	INFO: the term and end of its log    <--
//	frames                               <--      REPLCONF frames
//	                                              opens its data with all frames, and leads
//	asks for its role                    -->      a primary
//	sets its files aside, and copies
//
// A primary that never comes back is waited for without end, and REPLICAOF names another node. The wait would not end if the primary
// waited for this node in its turn, so a primary takes the answer of such a node as that of a node that can do no more than give frames.

// awaitTell is the time between lines of the log that tell of the wait for the primary.
const awaitTell = 10 * time.Second

// awaitPrimary waits until the primary of a replica outside of a cluster has opened its data, or until REPLICAOF names another one. Meanwhile this node
// gives frames of its log, and tells where that ends. waited: the primary has opened its data since. Without a log of a known term this node has nothing
// to give, and does not wait.
func (h *Healer) awaitPrimary(ctx context.Context, dir string, damage error, by Helper, search Search) (waited bool, told Told, err error) {
	n := h.node
	if by.Parts == (Address{}) || search.InCluster() {
		return false, told, nil
	}
	if was, err := past.ReadHealing(n.fs, dir); err != nil || was != nil {
		return false, told, nil // the files are parts of a copy
	}
	if _, err := past.ReadWholeEnd(n.fs, dir); err != nil {
		return false, told, nil
	}
	defer h.closed.begin(dir)()
	text := damage.Error()
	h.waits.Store(&text)
	defer h.waits.Store(nil)
	asking, end := search.Await(ctx, false)
	began, logged, known := time.Now(), time.Time{}, false
	for {
		role, err := AskRole(asking, by.Parts, n.settings(), endAsk)
		if err == nil && !role.Heals {
			return waited, end(), nil
		}
		if waited = true; time.Since(logged) >= awaitTell {
			logged = time.Now()
			n.logger.Error("the data directory is damaged, and nothing is set aside until the primary has opened its data; waiting. To copy another node, use REPLICAOF",
				"dir", dir, "primary", by.Parts.String(), "error", errors.Join(damage, err))
		}
		if !known {
			var at past.LogEnd
			if at, known = h.wholeEnd(asking, dir, by.Parts, began); known {
				defer h.closed.tell(at, false, nil)()
			}
		}
		if !sleep.For(asking, refillEvery) {
			break
		}
	}
	if told = end(); told == (Told{}) && errors.Is(ctx.Err(), context.Canceled) {
		err = ctx.Err() // the process ends
	}
	return false, told, err
}

// wholeEnd returns the end of a log that is not open, as far as its frames are whole. Frames that are damaged come from the primary if that one gives them: it
// may have lost its end, and have all that is damaged here. !ok: the primary may give them later.
func (h *Healer) wholeEnd(ctx context.Context, dir string, primary Address, began time.Time) (end past.LogEnd, ok bool) {
	end, err := past.ReadLogEnd(h.node.fs, dir)
	if err == nil {
		return end, true
	}
	if mendable(dir, err) && time.Since(began) < mendWithin {
		began := time.Now()
		done, silent, err := h.mendOnce(ctx, dir, []Address{primary}, past.LogMend{Ends: func() error { return h.noteBehind(dir) }})
		if err == nil && done.Segments > 0 {
			h.logMended(dir, done, began)
		}
		if err == nil || silent {
			return end, false
		}
	}
	end, err = past.ReadWholeEnd(h.node.fs, dir)
	return end, err == nil
}

// noteBehind notes that the directory may lack changes that this node acknowledged.
func (h *Healer) noteBehind(dir string) error {
	_, err := counter.NoteBehind(h.node.fs, dir)
	return err
}
