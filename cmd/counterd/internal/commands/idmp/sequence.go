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

// Number is the next one. REQUIRES that there is one.
func (s *Sequence) Number() Number { return Number{Producer: s.Producer, Seq: s.Next, Epoch: s.Epoch} }

// Room returns as many of a list as there are numbers for behind the next one.
func (s *Sequence) Room(list [][]byte) [][]byte {
	if s.Spent {
		return nil
	}
	if left := ^s.Next; uint64(len(list)) > left {
		return list[:left]
	}
	return list
}

// Skip uses up n numbers of those that Room has left.
func (s *Sequence) Skip(n int) { s.Next += uint64(n) }

// At is the sequence that gives num next, and nothing if num has no producer.
func At(num Number) Sequence {
	return Sequence{Producer: num.Producer, Next: num.Seq, Epoch: num.Epoch}
}
