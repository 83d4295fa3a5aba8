package front

import "github.com/counterd/counterd/cmd/counterd/internal/net/resp"

// Muting leaves replies of a session out, as CLIENT REPLY asks for: they are made and not sent. Only who owns the session
// may use it. from is never behind the end of out.
type Muting struct {
	out  *resp.Replies // of the session
	on   bool
	from int // bytes appended to out from here on are not sent
}

// Mute makes replies from now on be left out. A second Mute does nothing.
func (m *Muting) Mute() {
	if !m.on {
		m.on, m.from = true, m.out.Len()
	}
}

// Unmute ends Mute.
func (m *Muting) Unmute() {
	m.drop()
	m.on = false
}

// Say appends bytes that are sent in spite of Mute.
func (m *Muting) Say(p []byte) {
	m.drop()
	m.out.Raw(p)
	m.from = m.out.Len()
}

// drop drops what Mute leaves out.
func (m *Muting) drop() {
	if m.on {
		m.out.Cut(m.from)
	}
}

// sent notes that the present content of out has been sent, or has to be.
func (m *Muting) sent() { m.from = m.out.Len() }
