package server

import (
	"slices"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/tracking"
)

// CLIENT TRACKING and its options. Package tracking knows the keys that each client may hold.

// askTracking asks for the keys that CLIENT TRACKING in BCAST mode tells of. Without it only keys that were read are
// told.
func askTracking(r command.Rights, args [][]byte) (refused int) {
	broadcast, some := false, false
	for i := 3; i < len(args); i++ {
		switch more := i+1 < len(args); {
		case resp.EqualFold(args[i], "BCAST"):
			broadcast = true
		case resp.EqualFold(args[i], "REDIRECT") && more:
			i++
		case resp.EqualFold(args[i], "PREFIX") && more:
			i++
			some = true
			if refused == 0 && !r.Prefix(args[i], command.NeedRead) {
				refused = i
			}
		}
	}
	if !broadcast || some && refused == 0 || r.Everything(command.NeedRead) {
		return -1
	}
	return refused
}

// runClientTracking: CLIENT TRACKING ON | OFF [REDIRECT id] [PREFIX prefix ...] [BCAST] [OPTIN] [OPTOUT] [NOLOOP].
func runClientTracking(c *client, args [][]byte) {
	var mode tracking.Mode
	var prefixes []string
	var target *client
	redirect := int64(0)
	for i := 3; i < len(args); i++ {
		more := i+1 < len(args)
		switch {
		case resp.EqualFold(args[i], "REDIRECT") && more:
			i++
			if redirect != 0 {
				c.call.items.Out.Error("ERR A client can only redirect to a single other client")
				return
			}
			var ok bool
			if redirect, ok = resp.Number(args[i]); !ok {
				c.call.items.Out.Error(items.ErrNotInteger)
				return
			}
			other := c.srv.front.Session(redirect)
			if other == nil {
				c.call.items.Out.Error("ERR The client ID you want redirect to does not exist")
				return
			}
			target = other.Handler().(*client)
		case resp.EqualFold(args[i], "BCAST"):
			mode.Broadcast = true
		case resp.EqualFold(args[i], "OPTIN"):
			mode.OptIn = true
		case resp.EqualFold(args[i], "OPTOUT"):
			mode.OptOut = true
		case resp.EqualFold(args[i], "NOLOOP"):
			mode.NoLoop = true
		case resp.EqualFold(args[i], "PREFIX") && more:
			i++
			prefixes = append(prefixes, string(args[i]))
		default:
			c.call.items.Out.Error(items.ErrSyntax)
			return
		}
	}
	switch {
	case resp.EqualFold(args[2], "ON"):
		if text := startTracking(c, mode, target, prefixes); text != "" {
			c.call.items.Out.Error(text)
			return
		}
	case resp.EqualFold(args[2], "OFF"):
		c.call.stopTracking()
	default:
		c.call.items.Out.Error(items.ErrSyntax)
		return
	}
	c.call.items.Out.Status("OK")
}

// startTracking makes the connection track; text is the error.
func startTracking(c *client, mode tracking.Mode, target *client, prefixes []string) (text string) {
	now := c.tracker.state()
	switch {
	case len(prefixes) > 0 && !mode.Broadcast:
		return "ERR PREFIX option requires BCAST mode to be enabled"
	case now.On && now.Broadcast != mode.Broadcast:
		return "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode."
	case mode.Broadcast && (mode.OptIn || mode.OptOut):
		return "ERR OPTIN and OPTOUT are not compatible with BCAST"
	case mode.OptIn && mode.OptOut:
		return "ERR You can't specify both OPTIN mode and OPTOUT mode"
	case mode.OptIn && now.OptOut || mode.OptOut && now.OptIn:
		return "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode."
	}
	if len(now.Prefixes)+len(prefixes) > tracking.MaxPrefixes { // before they are compared
		return "ERR " + tracking.ErrTooManyPrefixes.Error()
	}
	if text := overlap(now.Prefixes, prefixes); text != "" {
		return text
	}
	var to *tracking.Client
	if target != nil {
		to = target.tracker.enter()
	}
	t := c.tracker.enter()
	if err := c.srv.tracking.Enable(t, mode, to, prefixes); err != nil {
		return "ERR " + err.Error()
	}
	c.call.reads = &reads{keys: &c.srv.tracking, known: t, mode: mode}
	return ""
}

// overlap refuses prefixes of which one begins with another: a key would be told twice. text is the error. have is in
// order, and without overlaps.
func overlap(have, more []string) (text string) {
	if !overlaps(have, more) {
		return ""
	}
	begin := func(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }
	for i, p := range more {
		for _, h := range have {
			if begin(p, h) {
				return "ERR Prefix '" + resp.Printable([]byte(p), 128) + "' overlaps with an existing prefix '" + resp.Printable([]byte(h), 128) +
					"'. Prefixes for a single client must not overlap."
			}
		}
		for _, o := range more[i+1:] {
			if begin(p, o) {
				return "ERR Prefix '" + resp.Printable([]byte(p), 128) + "' overlaps with another provided prefix '" + resp.Printable([]byte(o), 128) +
					"'. Prefixes for a single client must not overlap."
			}
		}
	}
	return ""
}

// overlaps tells whether one of the prefixes begins with another. In sorted order, a prefix stands right before a longer
// prefix that begins with it, or before another such prefix.
func overlaps(have, more []string) bool {
	for _, p := range more {
		n, _ := slices.BinarySearch(have, p)
		if n < len(have) && strings.HasPrefix(have[n], p) || n > 0 && strings.HasPrefix(p, have[n-1]) {
			return true
		}
	}
	more = slices.Sorted(slices.Values(more))
	for i := 1; i < len(more); i++ {
		if strings.HasPrefix(more[i], more[i-1]) {
			return true
		}
	}
	return false
}

// runClientCaching: CLIENT CACHING YES | NO.
func runClientCaching(c *client, args [][]byte) {
	switch r := c.call.reads; {
	case r == nil:
		c.call.items.Out.Error("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled")
	case resp.EqualFold(args[2], "YES") && !r.mode.OptIn:
		c.call.items.Out.Error("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
	case resp.EqualFold(args[2], "NO") && !r.mode.OptOut:
		c.call.items.Out.Error("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
	case resp.EqualFold(args[2], "YES"), resp.EqualFold(args[2], "NO"):
		r.caching = true
		c.call.items.Out.Status("OK")
	default:
		c.call.items.Out.Error(items.ErrSyntax)
	}
}

func runClientGetRedir(c *client, _ [][]byte) {
	if s := c.tracker.state(); s.On {
		c.call.items.Out.Int(s.Redirect)
	} else {
		c.call.items.Out.Int(-1)
	}
}

// runClientTrackingInfo: CLIENT TRACKINGINFO.
func runClientTrackingInfo(c *client, _ [][]byte) {
	s := c.tracker.state()
	flags := []string{"off"}
	if s.On {
		flags[0] = "on"
	}
	caching := c.call.reads != nil && c.call.reads.caching
	for _, f := range []struct {
		set  bool
		name string
	}{
		{s.Broadcast, "bcast"}, {s.OptIn, "optin"}, {s.OptIn && caching, "caching-yes"}, {s.OptOut, "optout"}, {s.OptOut && caching, "caching-no"},
		{s.NoLoop, "noloop"}, {s.Broken, "broken_redirect"},
	} {
		if f.set {
			flags = append(flags, f.name)
		}
	}
	c.call.items.Out.Map(3)
	c.call.items.Out.BulkString("flags")
	c.call.items.Out.Set(len(flags))
	for _, f := range flags {
		c.call.items.Out.BulkString(f)
	}
	c.call.items.Out.BulkString("redirect")
	if s.On {
		c.call.items.Out.Int(s.Redirect)
	} else {
		c.call.items.Out.Int(-1)
	}
	c.call.items.Out.BulkString("prefixes")
	c.call.items.Out.BulkStrings(s.Prefixes)
}
