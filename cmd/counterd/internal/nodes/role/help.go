package role

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/restore"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/past"
)

// A primary outside of a cluster that cannot open its directory asks the replicas that it remembers (REPLICAS):
//
//	one was told to lead                  it is followed
//	one follows another node by now       that one is followed
//	all are replicas of this node's log   the replica with the most of it is copied, and this node leads again
//
// The first two count only where no replica of this node's log has more of it than they had when they left it. All remembered
// replicas are heard first, or helpPatience is over: a change that WAIT or min-replicas-to-write acknowledged may be on one of
// them alone. A node that left the log long before its end (left) is not followed while another one is silent.
//
// While no remembered replica answers, the node waits, as nodes of a cluster do: the data is on a node that is away for now. Only a
// backup (heal-from) ends that. It gives up where all have answered and none has the data.
const (
	helpPatience = 15 * time.Second       // for replicas that do not answer; then answers count that do not help
	helpWithin   = 45 * time.Second       // then a backup is taken although a replica is silent
	helpEvery    = 500 * time.Millisecond // between two rounds
	helpAsk      = 2 * time.Second        // for an answer
)

// errAwaits begins the reply of a node that waits for the end of its log.
const errAwaits = "LOADING counterd waits for the end of its log: "

var (
	// errAlone: nobody else is known.
	errAlone = errors.New("this node is not a replica and remembers no replicas, so no other node is known to have its data")
	// errCannotOpen: the node gives frames of its log at most.
	errCannotOpen = errors.New("it cannot open its own data")
	// errSilent: a node does not describe its data.
	errSilent = errors.New("it does not answer")
)

// HelpBy sets how a node of a cluster knows that another node has the data of its damaged directory: find returns the primary of its
// shard then, or the zero value if the node is of no shard. members returns the other nodes of its shard, and inSync is repl.Search's. Call it before Open.
func (n *Role) HelpBy(find func(ctx context.Context) (primary repl.Address, err error), members func(ctx context.Context) []repl.Address, inSync func(ctx context.Context) error) {
	n.help, n.members, n.inSync = find, members, inSync
}

// toldHelp is the word of REPLICAOF to a node that looks for its data.
type toldHelp struct {
	mu    sync.Mutex
	said  repl.Told
	alone bool          // NO ONE is taken: only the end of the log is missing
	told  chan struct{} // closed when it was said; nil: nobody looks
}

// begin returns a channel that is closed when REPLICAOF has been said.
func (t *toldHelp) begin(alone bool) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.said, t.alone, t.told = repl.Told{}, alone, make(chan struct{})
	return t.told
}

// end returns the word, and ends the search.
func (t *toldHelp) end() repl.Told {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told = nil
	return t.said
}

// tell names the primary that the node is to follow; zero: none. The last call counts. It tells whether the node listens.
func (t *toldHelp) tell(primary repl.Address) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	said := repl.Told{Follow: primary, Alone: primary == repl.Address{}}
	if t.told == nil || said.Alone && !t.alone {
		return false
	}
	if t.said == (repl.Told{}) {
		close(t.told)
	}
	t.said = said
	return true
}

// Loading is the reply to commands that need the store while it is being opened. It names the replica that the node waits for.
func Loading(n *Role) string {
	if text := n.repl.Healer().Awaits(); text != "" {
		return errAwaits + text
	}
	return items.ErrLoading
}

// NamesHelper tells whether a command is REPLICAOF, and the start of the node waits for a node that has the data of the damaged directory:
// REPLICAOF names it.
func NamesHelper(n *Role, command string) bool {
	if command != "replicaof" && command != "slaveof" {
		return false
	}
	n.told.mu.Lock()
	defer n.told.mu.Unlock()
	return n.told.told != nil
}

// helpSearch is the search for a node that has the data of a damaged directory.
//
// Invariant: it changes nothing in the directory but LONGER (saw). A backup is put beside it.
type helpSearch struct {
	role *Role
	conf config.Config
	note repl.ReplicasNote

	longer past.LongerLog // the most that a replica was seen to have of this node's log
	frames bool           // the damage is of the log: frames of another node mend it

	patience, within, every, endWithin time.Duration // helpPatience ...
}

// newHelpSearch begins a search for the data of the directory in the configuration.
func newHelpSearch(n *Role) *helpSearch {
	c, files := n.config.Get(), n.repl.Healer().Files()
	longer, err := past.ReadLonger(files, c.Dir)
	if err != nil {
		n.log.Error("cannot read how far the log of a replica goes; changes that only that one has may be lost", "error", err)
	}
	return &helpSearch{role: n, conf: c, note: repl.ReadReplicas(files, c.Dir), longer: longer, patience: helpPatience, within: helpWithin, every: helpEvery, endWithin: endWithin}
}

// Find finds the data on another node, or else in a backup. It looks until ctx ends at most. With frames, a node that gives frames alone helps, too.
func (s *helpSearch) Find(ctx context.Context, frames bool) (repl.Helper, error) {
	s.frames = frames
	by, err := s.findNode(ctx)
	if err == nil || s.conf.HealFrom == "" || s.role.help != nil || s.role.opened.Load() || ctx.Err() != nil {
		return by, err
	}
	staged, rerr := s.restoreBackup(ctx)
	if rerr != nil {
		return by, errors.Join(err, fmt.Errorf("heal-from: %w", rerr))
	}
	return repl.Helper{Lead: staged.Term, Restored: staged.String()}, nil
}

// InCluster is repl.Search's.
func (s *helpSearch) InCluster() bool { return s.role.help != nil }

// Members is repl.Search's.
func (s *helpSearch) Members(ctx context.Context) []repl.Address {
	if s.role.members == nil {
		return nil
	}
	return s.role.members(ctx)
}

// InSync is repl.Search's.
func (s *helpSearch) InSync(ctx context.Context) error {
	if s.role.inSync == nil {
		return errAlone
	}
	return s.role.inSync(ctx)
}

// restoreBackup puts the data of a backup beside the damaged files.
func (s *helpSearch) restoreBackup(ctx context.Context) (staged restore.Staged, err error) {
	c := &s.conf
	if !s.role.repl.Healer().MayLead(c.Dir) {
		return staged, restore.ErrReplica
	}
	opts, err := c.StoreOptions()
	if err != nil {
		return staged, err
	}
	opts.Logger = s.role.log
	s.role.log.Error("the data directory is damaged, and no other node has its data; looking for a backup", "dir", c.Dir, "place", c.HealFrom)
	return restore.Stage(ctx, restore.Options{Dir: c.Dir, Place: c.HealFrom, Noted: s.note.History, Store: opts, Logger: s.role.log})
}

// findNode finds a node that has the data of this one's directory. It looks until ctx ends at most.
func (s *helpSearch) findNode(ctx context.Context) (repl.Helper, error) {
	switch {
	case s.role.help != nil:
		primary, err := s.role.help(ctx)
		return repl.Helper{Parts: primary}, err
	case s.conf.ReplicaOf != "":
		primary, err := primaryOf(s.conf)
		return repl.Helper{Parts: primary}, err
	case len(s.note.List) == 0:
		return repl.Helper{}, errAlone
	}
	s.role.log.Error("the data directory is damaged; asking the replicas of this node for its data", "dir", s.conf.Dir, "replicas", s.note.List)
	if !s.role.opened.Load() {
		toFollow(s.role, repl.Address{}) // the node found before has gone
	}
	asking, end := s.Await(ctx, false)
	defer end()
	if s.longer.Term != s.note.History {
		s.longer = past.LongerLog{}
	}
	defer s.role.repl.Healer().Await("")
	told := false
	for began := time.Now(); ; {
		by, err := s.askReplicas(asking, time.Since(began) >= s.patience)
		if err == nil {
			s.role.log.Warn("another node has the data of this one", "from", by.From.String())
			switch {
			case by.Lead != (format.ReplID{}):
				s.saw(&by, 0)
			case !s.role.opened.Load():
				by.Parts = by.From
				toFollow(s.role, by.From) // if its frames make the log whole, nothing else says whom to follow
			}
			return by, nil
		}
		if s.longer.Offset > 0 && errors.Is(err, errSilent) {
			s.role.repl.Healer().Await(fmt.Sprintf("replica %s has the log up to offset %d, and the log here is damaged", repl.Address{Host: s.longer.Host, Port: s.longer.Port}, s.longer.Offset))
		}
		silent := errors.Is(err, errSilent)
		if waited := time.Since(began); waited >= s.within || waited >= s.patience && !silent {
			if s.conf.HealFrom != "" || !silent {
				return by, err
			}
			if !told {
				told = true
				s.role.log.Error("waiting for a replica that may have the data of this node; nothing is changed. To take what another node has, start this node with --replicaof and its address",
					"replicas", s.note.List, "error", err)
			}
		}
		select {
		case <-asking.Done():
			if told := end(); told.Follow != (repl.Address{}) {
				s.role.log.Warn("REPLICAOF names the node that has the data of this one", "from", told.Follow.String())
				return repl.Helper{From: told.Follow, Parts: told.Follow, Named: true}, nil
			}
			return by, errors.Join(err, ctx.Err())
		case <-time.After(s.every):
		}
	}
}

// Await lets REPLICAOF name the node that this one is to follow, until end is called; with alone, NO ONE has it lead. A node that is open has a
// role already, which REPLICAOF changes.
func (s *helpSearch) Await(ctx context.Context, alone bool) (_ context.Context, end func() repl.Told) {
	ctx, cancel := context.WithCancel(ctx)
	if s.role.opened.Load() {
		return ctx, func() repl.Told { cancel(); return repl.Told{} }
	}
	named := s.role.told.begin(alone)
	go func() {
		select {
		case <-named:
		case <-ctx.Done():
		}
		cancel()
	}()
	return ctx, func() repl.Told { cancel(); return s.role.told.end() }
}

// askReplicas asks once. late: those that do not answer are not waited for any more.
func (s *helpSearch) askReplicas(ctx context.Context, late bool) (by repl.Helper, err error) {
	var best, parted repl.Role // of the replicas in this node's term, and of those in a later one
	var leader repl.Address    // the primary of parted
	var closed repl.Helper     // of the replicas that cannot open their data, the one with the most
	var errs []error
	silent := false
	for _, a := range s.note.List {
		r, err := repl.AskRole(ctx, a, s.role.settings(), helpAsk)
		leads := a
		if end, in, ok := r.Closed(s.note.History); ok {
			if err = errCannotOpen; in && end > closed.End {
				closed = repl.Helper{From: a, Lead: s.note.History, End: end, Closed: true}
			}
		} else if err != nil {
			err = fmt.Errorf("%w: %w", errSilent, err)
		} else {
			leads, err = s.leaderBy(ctx, a, &r)
		}
		silent = silent || errors.Is(err, errSilent)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", a, err))
		case leads != repl.Address{} && (leader == repl.Address{} || r.SecondEnd > parted.SecondEnd):
			leader, parted = leads, r
		case leads == repl.Address{} && (by.From == repl.Address{} || r.Offset > best.Offset):
			by, best = repl.Helper{From: a, Lead: s.note.History, End: r.Offset}, r
		}
	}
	// A node that was promoted long ago, as a copy of the data, lacks the changes that this node's other replicas took since.
	if leader != (repl.Address{}) && (by.From == repl.Address{} || parted.SecondEnd >= best.Offset) {
		by = repl.Helper{From: leader}
		if late && silent {
			if err := s.left(parted.SecondEnd); err != nil {
				return repl.Helper{}, fmt.Errorf("%s: %w: %w", leader, err, errors.Join(errs...))
			}
		}
	}
	if has := max(by.End, parted.SecondEnd); by.From != (repl.Address{}) && silent && s.longer.Offset > has {
		return repl.Helper{}, fmt.Errorf("%w: a replica had the log up to offset %d, and %s has it up to %d: %w", errSilent, s.longer.Offset, by.From, has, errors.Join(errs...))
	}
	if s.frames && by.From == (repl.Address{}) && closed.End > 0 && (late || !silent) {
		return closed, nil
	}
	if by.From == (repl.Address{}) || len(errs) > 0 && !late {
		return repl.Helper{}, fmt.Errorf("no replica gives this node its data back: %w", errors.Join(errs...))
	}
	if len(errs) > 0 {
		s.role.log.Error("not all replicas answer; taking the data of the one with the most of those that do", "from", by.From.String(), "error", errors.Join(errs...))
	}
	return by, nil
}

// left tells that a node left this node's log at an offset long before the log ended, or that nobody can tell: the changes since
// then may be on a silent replica. A node that took over in a failover left it in the seconds before the end.
func (s *helpSearch) left(at uint64) error {
	var f format.Frame
	first, last, read := int64(0), int64(0), at
	known, err := past.DamagedLog(s.role.repl.Healer().Files(), s.conf.Dir, 0, at, func(raw []byte) error {
		if format.DecodeFrame(raw, read, &f) == nil { // DamagedLog gives whole frames
			if read = f.End(); last == 0 {
				first = f.TimeMS
			}
			first, last = min(first, f.TimeMS), max(last, f.TimeMS) // the clock may have been set back
		}
		return nil
	})
	span := time.Duration(last-first) * time.Millisecond
	if err == nil && known == read && span <= s.patience {
		return nil
	}
	return errors.Join(fmt.Errorf("it left the log of this node at %d, %d bytes before its end; the changes behind may be on a replica that does not answer", at, max(known, read)-at), err)
}

// leaderBy is the primary that a replica names by its role: itself, or the primary that it follows by now; zero: it is in this node's term.
func (s *helpSearch) leaderBy(ctx context.Context, a repl.Address, r *repl.Role) (repl.Address, error) {
	switch {
	case r.Heals:
		return repl.Address{}, errors.New("its own data was damaged")
	case !r.Knows(s.note.History):
		return repl.Address{}, errors.New("it has another history")
	case r.Primary:
		return a, nil
	case r.In(s.note.History) || r.Of == repl.Address{}:
		return repl.Address{}, nil
	case s.role.isMe(ctx, r.Of):
		return repl.Address{}, errors.New("it was a primary meanwhile, and follows this node again: say REPLICAOF NO ONE to it, and start this node with --replicaof and its address")
	}
	of, err := repl.AskRole(ctx, r.Of, s.role.settings(), helpAsk)
	switch {
	case err != nil:
		err = fmt.Errorf("%w: %w", errSilent, err)
	case of.Heals || !of.Knows(s.note.History):
		err = errors.New("that node has not the data")
	}
	if err != nil {
		return repl.Address{}, fmt.Errorf("it follows %s: %w", r.Of, err)
	}
	return r.Of, nil
}
