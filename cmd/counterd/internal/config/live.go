package config

import "sync"

// Live is the configuration in force. Readers take a copy. It may be used by several goroutines at once.
type Live struct {
	// Prepare, if set, does the part of a change by Set that may fail, before the change is in force: its error is the
	// answer then, and nothing is changed. It is called under the lock, so it must not use Live. Set it before others
	// use Live.
	Prepare func(old, next *Config) error

	mu sync.Mutex
	c  Config
}

// NewLive begins with c, which is valid.
func NewLive(c Config) *Live { return &Live{c: c} }

// Get returns a copy.
func (l *Live) Get() Config {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.c
}

// Set is CONFIG SET: it changes settings given as name, value, name, value, all or none. The error names the setting,
// in Redis's words.
func (l *Live) Set(pairs []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.c
	failed := func(name string, err error) error {
		return setError("CONFIG SET failed (possibly related to argument '" + name + "') - " + err.Error())
	}
	for i := 0; i < len(pairs); i += 2 {
		p := find(pairs[i])
		switch {
		case p == nil:
			return setError("Unknown option or number of arguments for CONFIG SET - '" + pairs[i] + "'")
		case !p.live:
			return setError("CONFIG SET failed (possibly related to argument '" + pairs[i] + "') - can't set immutable config")
		}
		err := p.set(&next, pairs[i+1])
		if err == nil {
			err = next.Validate()
		}
		if err != nil {
			return failed(pairs[i], err)
		}
	}
	if l.Prepare != nil {
		if err := l.Prepare(&l.c, &next); err != nil {
			return failed(pairs[0], err)
		}
	}
	l.c = next
	return nil
}

// Hold calls f with the configuration in force, which nobody changes meanwhile: f must not use Live.
func (l *Live) Hold(f func(*Config)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.c)
}

// SetReplicaOf notes the primary, "host port", or that there is none. REPLICAOF changes it, not CONFIG SET.
func (l *Live) SetReplicaOf(primary string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.c.ReplicaOf = primary
}

// setError is the error reply of CONFIG SET, in Redis's words.
type setError string

func (e setError) Error() string { return string(e) }
