package idmp

// Sequence is the state of CLIENT IDMP: the changes of a connection are numbered as they are read. Refused changes use up
// their number too, so that a client that does not read replies can count them. Commands in MULTI have no number of their
// own; EXEC has one.
type Sequence struct {
	Producer []byte // nil: commands are not numbered
	Next     uint64
	Epoch    uint64
	Spent    bool // Next would be beyond the highest number
}

const errSpent = "ERR IDMP: the sequence numbers are used up"

// Take makes num the next number. text is the error.
func (s *Sequence) Take(num *Number) (text string) {
	if s.Spent {
		return errSpent
	}
	*num = Number{Producer: s.Producer, Seq: s.Next, Epoch: s.Epoch}
	s.Next++
	s.Spent = s.Next == 0
	return ""
}

// At is the sequence that gives num next, and nothing if num has no producer.
func At(num Number) Sequence {
	return Sequence{Producer: num.Producer, Next: num.Seq, Epoch: num.Epoch}
}
