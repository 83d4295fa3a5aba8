package pubsub

import "github.com/counterd/counterd/cmd/counterd/internal/commands/glob"

// Hears tells whether a message to a channel would reach a subscriber, and how many subscriptions have begun so far, to any channel: while
// that number stays, there is no new one.
func (r *Registry) Hears(channel string) (hears bool, begun uint64) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if len(r.tables[Channel][channel]) > 0 {
		return true, r.begun
	}
	for pattern := range r.tables[Pattern] {
		if glob.Match(pattern, channel) {
			return true, r.begun
		}
	}
	return false, r.begun
}

// News is a message about a state that subscribers of a channel follow.
type News struct {
	Since  uint64        // Tell's answer for the message before; 0: there is none
	Change []byte        // to subscriptions that have got the message before; nil: nothing has changed
	Whole  func() []byte // to subscriptions that began since; called at most once
}

// Tell sends a message to a channel. The number is for the next message: a later subscription gets the whole. pause is that of
// Publish.
func (r *Registry) Tell(channel string, news News, pause func()) (told uint64) {
	var late, old []receiver
	r.mu.RLock()
	told = r.begun
	r.each(Channel, channel, func(to receiver) {
		if to.number > news.Since {
			late = append(late, to)
		} else {
			old = append(old, to)
		}
	})
	r.mu.RUnlock()
	if len(late) > 0 {
		d := delivery{r: r, channel: channel, message: news.Whole()}
		d.slices(late, pause)
		d.wake()
	}
	if news.Change != nil && len(old) > 0 {
		d := delivery{r: r, channel: channel, message: news.Change}
		d.slices(old, pause)
		d.wake()
	}
	return told
}
