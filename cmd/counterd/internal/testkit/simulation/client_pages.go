package simulation

import (
	"fmt"
	"strconv"
)

// turnPage sends one command or transaction about a page.
func (c *client) turnPage(p *page) {
	switch {
	case c.dice.Chance(150):
		if c.glance(p); c.run.Config.Window != "" && !c.run.Config.Decay {
			c.glanceDerived(p)
		}
	case p.owner == c.name && c.dice.Chance(700):
		c.setPage(p)
	case p.owner == "" && c.dice.Chance(600):
		c.addToPage(p)
	default:
		a := attempt{client: c.name, read: true, from: c.run.now()}
		a.value, a.outcome = c.seePage(p, c.run.readingPage(p, c.dice.N(4)))
		if a.till = c.run.now(); a.outcome == acknowledged {
			p.history.Add(p.name, a)
		}
	}
}

// seePage reads a page.
func (c *client) seePage(p *page, commands [][]string) (int64, outcome) {
	v, got := c.exchange(p.home(), commands...)
	if got != acknowledged {
		return 0, got
	}
	list := leaves(v)
	if failing(list) != "" {
		return 0, refused
	}
	value, half := p.value(list)
	if half {
		c.run.Fault("%s: half a change of %s was seen: %v was answered %v", c.name, p.name, commands, v)
		return 0, refused
	}
	return value, acknowledged
}

// glance reads a page on any node, as it is there. A replica may answer an older state, and never half a change.
func (c *client) glance(p *page) {
	m := Pick(c.dice, c.run.Machines)
	words := Pick(c.dice, [][]string{p.rows(), p.all("MGET")})
	v, err := c.say(m.host, words...)
	if err != nil || failing(leaves(v)) != "" {
		return
	}
	if _, half := p.value(leaves(v)); half {
		c.run.Fault("%s: half a change of %s was seen on %s: %v was answered %v", c.name, p.name, m.name, words, v)
	}
}

// addToPage makes one attempt to add one to all counters of a page.
func (c *client) addToPage(p *page) {
	commands, update := transaction(p.each("INCRBY", "1")), false
	switch way := c.dice.N(3); {
	case way == 0 && c.run.Config.Standalone: // a cluster refuses an update of several posts that is made as a whole
		commands, update = [][]string{append(p.ids("COUNTER.UPDATE", "p", "MID", "IN"), "INCR", "pa", "1", "INCR", "pb", "1", "RETURNING", "NEW")}, true
	case way == 1 && c.numbered:
		commands = [][]string{p.all("COUNTER.MINCRBY", "1")}
	}
	c.change(p, commands, attempt{}, update)
}

// setPage sets all counters of the client's own page to the next version, or deletes its posts.
func (c *client) setPage(p *page) {
	ways := 5
	if c.run.Config.Window != "" { // additions count in derived columns
		ways++
	}
	way := c.dice.N(ways)
	a := attempt{value: p.begin(way == 0)}
	n := strconv.FormatInt(a.value, 10)
	var commands [][]string
	switch way {
	case 0:
		commands = [][]string{p.posts("DEL")}
	case 1:
		commands = [][]string{{"COUNTER.MSET", "p"}}
		for _, id := range p.ids() {
			commands[0] = append(commands[0], id, n, n)
		}
	case 2:
		commands = [][]string{p.all("MSET", n)}
	case 3:
		commands = transaction(p.each("SET", n))
	case 4: // nobody sees the posts gone
		commands = transaction(append([][]string{p.posts("DEL")}, p.each("SET", n)...))
	case 5:
		commands = p.addAnew(n)
	}
	c.change(p, commands, a, false)
}

// change makes one attempt to change a page. A numbered one goes on until it is answered. Only the owner knows the value beforehand.
func (c *client) change(p *page, commands [][]string, a attempt, update bool) {
	known := a.value
	a.client, a.from, a.numbered, a.outcome = c.name, c.run.now(), c.numbered, uncertain
	if c.numbered {
		last := len(commands) - 1
		commands[last] = c.withNumber(commands[last])
	}
	for {
		if a.value, a.outcome = c.changeOnce(p, commands, update, known); !c.numbered || a.outcome == acknowledged {
			break
		}
		if c.tired(&a) {
			a.outcome = uncertain
			break
		}
		c.rest(c.dice)
	}
	a.till = c.run.now()
	if known != 0 {
		a.value = known
	} else if a.outcome == acknowledged && a.value == 0 { // an update found no posts
		return
	}
	if a.confirmed = c.run.Config.Sentinel && a.outcome == acknowledged && c.confirm(); a.confirmed {
		c.run.Story.meet("simulation: WAIT confirmed a change of a page")
	}
	p.history.Add(p.name, a)
}

// changeOnce sends a change once. The value of an update that found no posts is 0.
func (c *client) changeOnce(p *page, commands [][]string, update bool, known int64) (int64, outcome) {
	v, got := c.exchange(p.home(), commands...)
	if got != acknowledged {
		return 0, got
	}
	half := func() (int64, outcome) {
		c.run.Fault("%s: half a change of %s was made: %v was answered %v", c.name, p.name, commands, v)
		return 0, uncertain
	}
	list := leaves(v)
	if text := failing(list); text != "" {
		return half()
	}
	switch {
	case known != 0 && len(commands) == 1 && commands[0][0] == "DEL":
		if n := v.Text(); n != "0" && n != fmt.Sprint(len(p.mids)) {
			return half()
		}
		return known, acknowledged
	case known != 0:
		return known, acknowledged
	case update && len(list) == 0:
		return 0, acknowledged
	case update:
		list = nil
		for _, post := range v.Array {
			list = append(list, leaves(post)[1:]...)
		}
	}
	value, differ := p.value(list)
	if differ || len(list) != len(p.mids)*len(pageColumns) {
		return half()
	}
	return value, acknowledged
}
