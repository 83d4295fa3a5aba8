package front

// ReplyMode is the state of CLIENT REPLY of a session. Only the goroutine that runs the session uses it.
type ReplyMode struct {
	muting   *Muting
	off      bool // replies are made, counted, and not sent
	skip     bool // the reply to the next command is left out
	skipping bool // the reply to the command being executed is left out
}

// NewReplyMode makes the mode of a session: all replies are sent.
func NewReplyMode(s *Session) ReplyMode { return ReplyMode{muting: &s.Muting} }

// Off tells whether CLIENT REPLY OFF holds.
func (m *ReplyMode) Off() bool { return m.off }

// SkipsNext tells whether the reply to the next command is left out.
func (m *ReplyMode) SkipsNext() bool { return m.skip }

// Skipping tells whether the reply to the command being executed is left out by SKIP.
func (m *ReplyMode) Skipping() bool { return m.skipping }

// TurnOn ends OFF and SKIP.
func (m *ReplyMode) TurnOn() {
	m.muting.Unmute()
	m.off, m.skip, m.skipping = false, false, false
}

// TurnOff leaves out all replies from now on.
func (m *ReplyMode) TurnOff() {
	m.muting.Mute()
	m.off = true
}

// SkipNext leaves out the reply to the next command. While replies are off it does nothing.
func (m *ReplyMode) SkipNext() { m.skip = !m.off }

// BeginSkipped leaves out the reply to the command that comes. REQUIRES that everything before it was answered and committed.
func (m *ReplyMode) BeginSkipped() {
	m.off, m.skip, m.skipping = false, false, true
	m.muting.Mute()
}

// EndSkipped ends BeginSkipped behind the command, unless the command was CLIENT REPLY OFF.
func (m *ReplyMode) EndSkipped() {
	if m.skipping = false; !m.off {
		m.muting.Unmute()
	}
}
