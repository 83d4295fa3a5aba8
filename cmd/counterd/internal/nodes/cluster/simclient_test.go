package cluster

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/anishathalye/porcupine"
)

// outcome is a client's knowledge of its command.
type outcome uint8

const (
	pending      outcome = iota
	acknowledged         // done
	refused              // not done, and will not be
	uncertain            // perhaps done, perhaps yet
)

// attempt is one command of a client.
type attempt struct {
	id     int64
	client int
	key    int
	read   bool
	begun  time.Time
	ended  time.Time // zero: it may take effect at any later moment
	value  int       // that was answered
}

func (op attempt) String() string {
	what, end := "incr", "?"
	if op.read {
		what = "read"
	}
	if !op.ended.IsZero() {
		end = fmt.Sprintf("%.3f = %d", op.ended.Sub(epochOfTime).Seconds(), op.value)
	}
	return fmt.Sprintf("%.3f client %d %s (%d) %s", op.begun.Sub(epochOfTime).Seconds(), op.client, what, op.id, end)
}

// server carries a command out on one machine, and says whom to ask instead.
func (w *world) server(m *machine, op *attempt) (value int, o outcome, hint *machine) {
	w.mu.Lock()
	p := m.proc
	if w.mu.Unlock(); p == nil {
		return 0, refused, nil
	}
	wt := &waiter{done: make(chan outcome, 1)}
	for {
		if !p.enter() {
			return 0, refused, nil // the connection broke before it was read
		}
		st := p.standing
		if st == nil { // the process has just begun
			w.mu.Unlock()
			return 0, refused, nil
		}
		refusal := st.Writes
		if op.read {
			refusal = st.Readable(time.Now())
		}
		if refusal == "" && !op.read && m.hangs {
			refusal = errHangs.Error()
		}
		if refusal != "" || !st.Primary || st.Shard == nil || int(st.Shard.ID)-1 != op.key%w.shards || p.kind != leading {
			if st.Map != nil {
				if s := st.Map.Shard(shardID(op.key % w.shards)); s != nil {
					hint = w.machine(s.Primary)
				}
			}
			w.mu.Unlock()
			return 0, refused, hint
		}
		if p.held == nil || op.read {
			break
		}
		held := p.held
		w.mu.Unlock()
		select {
		case <-held:
		case <-p.gone:
		}
	}
	for i, r := range p.m.log {
		if r.key == op.key {
			value++
			wt.pos = i + 1
		}
	}
	if !op.read {
		value++
		p.m.append(rec{epoch: p.epochOf, id: op.id, key: op.key})
		wt.pos, wt.id = len(p.m.log), op.id
	}
	p.waiters = append(p.waiters, wt)
	p.resolve()
	w.mu.Unlock()
	select {
	case o = <-wt.done:
	case <-p.gone:
		select {
		case o = <-wt.done:
		default:
			o = uncertain
		}
	}
	return value, o, nil
}

// client sends commands until the world says to stop.
func (w *world) client(n int, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	to := w.machines[rng.IntN(len(w.machines))]
	guess := make([]*machine, w.shards)
	for {
		select {
		case <-w.stop:
			return
		case <-time.After(time.Duration(rng.IntN(int(2 * w.think)))):
		}
		key := rng.IntN(w.keys)
		if to = guess[key%w.shards]; to == nil || rng.IntN(20) == 0 {
			to = w.machines[rng.IntN(len(w.machines))]
		}
		op := attempt{client: n, key: key, read: rng.IntN(4) == 0, begun: time.Now()}
		w.mu.Lock()
		w.ops++
		op.id = w.ops
		w.attempts[op.id] = true
		w.mu.Unlock()
		type answer struct {
			value int
			o     outcome
			hint  *machine
		}
		answers := make(chan answer, 1)
		go func() {
			var a answer
			a.value, a.o, a.hint = w.server(to, &op)
			answers <- a
		}()
		a := answer{o: uncertain}
		select {
		case a = <-answers:
		case <-time.After(4 * time.Second):
		}
		guess[key%w.shards] = a.hint
		if a.o == acknowledged {
			guess[key%w.shards] = to
		}
		done := op
		w.mu.Lock()
		switch {
		case a.o == acknowledged:
			w.answered++
			done.ended, done.value = time.Now(), a.value
			w.history[key] = append(w.history[key], done)
		case a.o == uncertain && !op.read:
			w.history[key] = append(w.history[key], done)
		case a.o == refused && !op.read:
			delete(w.attempts, op.id)
		}
		w.mu.Unlock()
		if a.o == refused && a.hint == nil {
			time.Sleep(w.think)
		}
	}
}

// counterModel is a number that is raised by one and read.
var counterModel = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, input, output any) (bool, any) {
		op, v := input.(attempt), state.(int)
		if !op.read {
			v++
		}
		return op.ended.IsZero() || output.(int) == v, v
	},
	DescribeOperation: func(input, output any) string {
		op := input.(attempt)
		return fmt.Sprintf("client %d read=%v: %v", op.client, op.read, output)
	},
}

// linearizable checks what clients saw of a key.
func (w *world) linearizable(history []attempt) porcupine.CheckResult {
	var ops []porcupine.Operation
	for i, op := range history {
		end := int64(math.MaxInt64)
		client := 1000 + i // a client without a reply does nothing else under this name
		if !op.ended.IsZero() {
			end, client = op.ended.UnixNano(), op.client
		}
		ops = append(ops, porcupine.Operation{ClientId: client, Input: op, Call: op.begun.UnixNano(), Output: op.value, Return: end})
	}
	return porcupine.CheckOperationsTimeout(counterModel, ops, 5*time.Second)
}
