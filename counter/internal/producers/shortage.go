package producers

import "strings"

// The links between the nodes of a cluster number their changes, by producers whose ids begin with linkPrefix: a link has one, and one more where that is not
// enough. A node that starts has new ones. Without a share of their own, producers of clients that fill the table would keep a new node from passing on
// any change. Links above the share take room as clients do.
const (
	linkPrefix = "link:"
	linkPlaces = 1 << 10 // 10 shards are 20 on each of them for each start of a node
	linkBytes  = 4 << 20 // 4 KB each
)

// isLink tells whether the producer id is a link between nodes.
func isLink(id string) bool { return strings.HasPrefix(id, linkPrefix) }

// share is the part of the places, and of the bytes, that only links have. It is beside the limits.
func (l *Limits) share() (places int, bytes int64) {
	places, bytes = linkPlaces, min(linkBytes, l.Bytes/4)
	if l.links > 0 {
		places, bytes = l.links, l.linkBytes
	}
	return places, bytes
}

// shortage is how many places, or bytes, a producer lacks.
//
//	a client   has room while clients, and links above their share, are within the limit
//	a link     has room while links are within their share, or all producers are within the limit and the share
type shortage struct {
	link bool  // the producer is a link
	all  int64 // to be freed within the limit
	own  int64 // to be freed within the share of links; of a client: the excess of links over it
}

func newShortage(link bool, all, links, limit, share int64) shortage {
	if link {
		return shortage{true, all - limit - share, links - share}
	}
	return shortage{false, all - min(links, share) - limit, links - share}
}

// grow adds the need of the producer.
func (s *shortage) grow(n int64) {
	if s.all += n; s.link {
		s.own += n
	}
}

// met tells whether nothing is lacking.
func (s *shortage) met() bool { return s.all <= 0 || s.link && s.own <= 0 }

// serves tells whether room of a producer is of use: the share of links is not for clients.
func (s *shortage) serves(link bool) bool { return s.link || !link || s.own > 0 }

// free notes that a producer gives back n.
func (s *shortage) free(link bool, n int64) {
	if link && !s.link {
		s.all -= max(0, min(n, s.own)) // the share of links is no room for a client
	} else {
		s.all -= n
	}
	if link {
		s.own -= n
	}
}

// lacking is the shortage of places, and of bytes, for a producer that needs none yet.
func lacking(t *Table, link bool) (places, bytes shortage) {
	own, ownBytes := t.limits.share()
	limit := min(t.limits.Producers, MaxPlaces-own)
	places = newShortage(link, int64(len(t.byID)), int64(t.links), int64(limit), int64(own))
	if link && len(t.byID) >= MaxPlaces { // an older version gave all numbers to clients
		places.own = places.all
	}
	return places, newShortage(link, t.bytes, t.linkBytes, t.limits.Bytes, ownBytes)
}
