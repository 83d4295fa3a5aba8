package config

import "sync"

// Live is the configuration in force. Readers take a copy. It may be used by several goroutines at once.
type Live struct {
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
			return setError("CONFIG SET failed (possibly related to argument '" + pairs[i] + "') - " + err.Error())
		}
	}
	l.c = next
	return nil
}

// SetReplicaOf notes the primary, "host port", or that there is none. REPLICAOF changes it, not CONFIG SET.
func (l *Live) SetReplicaOf(primary string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.c.ReplicaOf = primary
}

// setError is what CONFIG SET answers, in Redis's words.
type setError string

func (e setError) Error() string { return string(e) }
