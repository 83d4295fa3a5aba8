package topology

// Trouble is one thing that a node finds wrong with itself, and that an operator must hear of although the map of the
// cluster looks well: "its disk hangs", "its directory is an older copy". The node publishes its troubles in its Live key;
// counterctl cluster check, INFO and the console show them.
type Trouble struct {
	// ID is one word that names the kind, the same each time: "old-copy". A node has at most one trouble of each ID.
	ID string `json:"id"`
	// Severity is SevereError where something is not served or acknowledged changes are in danger, else SevereWarning.
	Severity string `json:"severity"`
	// Text is one or two sentences for people: the fault, then what to do. It does not name the node. It must not change
	// while the trouble lasts (no ages, no counts): each new text is a write to etcd.
	Text string `json:"text"`
}

// Severities of a trouble. They are the words that counterctl cluster check prints.
const (
	SevereError   = "error"
	SevereWarning = "warning"
)

// MaxTroubles bounds the troubles in a node's key, and MaxTroubleText the bytes of one text: every node reads every key.
const (
	MaxTroubles    = 8
	MaxTroubleText = 400
)
