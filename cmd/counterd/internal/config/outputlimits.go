package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/counterd/counterd/cmd/internal/bytesize"
)

// OutputLimits are redis.conf's client-output-buffer-limit: how many bytes a connection of each class may leave unread
// before it is closed. Connections of the class normal execute no more commands while replies are unread, so they reach
// a large limit only with one large reply. The class replica has no effect, as replicas are sent the log's files; it is
// kept for tools that read and write it. The text is "class hard soft seconds", once or more, sizes in bytes or as 32mb.
type OutputLimits [3]OutputLimit

// OutputLimit closes a connection at once when more than Hard bytes are unread, or when more than Soft are for longer
// than Seconds. 0 is no limit.
type OutputLimit struct {
	Hard, Soft uint64
	Seconds    int
}

// Classes of connections, as numbers of an OutputLimits.
const (
	Normal = iota
	Replica
	Pubsub
)

// outputClasses are the names as CONFIG GET has them; Set takes replica too.
var outputClasses = [...]string{Normal: "normal", Replica: "slave", Pubsub: "pubsub"}

func defaultOutputLimits() OutputLimits {
	return OutputLimits{Replica: {256 << 20, 64 << 20, 60}, Pubsub: {32 << 20, 8 << 20, 60}}
}

// String is the form of CONFIG GET.
func (l *OutputLimits) String() string {
	parts := make([]string, len(l))
	for i, one := range l {
		parts[i] = fmt.Sprintf("%s %d %d %d", outputClasses[i], one.Hard, one.Soft, one.Seconds)
	}
	return strings.Join(parts, " ")
}

// Type is for the help of flags.
func (l *OutputLimits) Type() string { return "class hard soft seconds" }

// Set changes the limits of the classes that the text names, all or none.
func (l *OutputLimits) Set(text string) error {
	words := strings.Fields(text)
	if len(words) == 0 || len(words)%4 != 0 {
		return setError("Wrong number of arguments in buffer limit configuration.")
	}
	next := *l
	for ; len(words) > 0; words = words[4:] {
		class := -1
		for i, name := range outputClasses {
			if strings.EqualFold(words[0], name) || i == Replica && strings.EqualFold(words[0], "replica") {
				class = i
			}
		}
		if class < 0 {
			return setError("Invalid client class specified in buffer limit configuration.")
		}
		hard, err := bytesize.Parse(words[1])
		soft, err2 := bytesize.Parse(words[2])
		seconds, err3 := strconv.ParseUint(words[3], 10, 31)
		if errors.Join(err, err2, err3) != nil {
			return setError("Error in hard, soft or soft_seconds setting in buffer limit configuration.")
		}
		next[class] = OutputLimit{hard, soft, int(seconds)}
	}
	*l = next
	return nil
}
