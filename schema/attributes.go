package schema

import "strings"

// The attributes of a counter: how its mids carry time, how long posts are kept (ids.go), and whether the log has old values.

// parseCounter reads the words behind the name of a counter.
func parseCounter[W ~string | ~[]byte](st *Statement, words []W) error {
	for _, w := range words {
		word := head(w)
		key, value, assigned := strings.Cut(word, "=")
		var said *bool
		switch strings.ToLower(key) {
		case "ids":
			said = &st.SaysIDs
		case "retain":
			said = &st.SaysRetain
		case "old":
			said = &st.SaysOld
		default:
			return fail(ErrSyntax, key, "unknown attribute %s of a counter: want ids=, retain= or old=", quote(key))
		}
		if *said {
			return fail(ErrAttribute, key, "attribute %s is given twice", key)
		}
		if !assigned {
			return fail(ErrAttribute, key, "attribute %s needs a value: want %s=VALUE", key, key)
		}
		var err error
		switch *said = true; said {
		case &st.SaysIDs:
			st.IDs, err = parseIDs(value)
		case &st.SaysRetain:
			st.Retain, err = parseRetain(value)
		default:
			st.Old, err = parseOld(value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkCounter holds the attributes of a counter to the rules that need no schema.
func (st *Statement) checkCounter() error {
	if st.Op == AlterCounter && !st.SaysIDs && !st.SaysRetain && !st.SaysOld {
		return fail(ErrAttribute, "", "nothing to alter of counter %s: want ids=, retain= or old=", st.Counter)
	}
	if !st.SaysIDs && st.IDs != (IDs{}) || !st.SaysRetain && st.Retain != 0 || !st.SaysOld && st.Old {
		return fail(ErrAttribute, "", "counter %s has a value that is not said", st.Counter)
	}
	if err := st.IDs.check(); err != nil {
		return err
	}
	return checkRetain(st.Retain)
}

// alterCounter changes the attributes of a counter.
func (d *draft) alterCounter(st Statement) error {
	i, err := d.mustCounter(st.Counter)
	if err != nil {
		return err
	}
	c := *d.counters[i]
	if st.SaysIDs {
		c.IDs = st.IDs
	}
	if st.SaysRetain {
		c.Retain = st.Retain
	}
	if st.SaysOld {
		c.Old = st.Old
	}
	if c.IDs == d.counters[i].IDs && c.Retain == d.counters[i].Retain && c.Old == d.counters[i].Old {
		return nil
	}
	if err := checkAges(&c); err != nil {
		return err
	}
	d.shrink(counterStatement(d.counters[i]))
	if err := d.grow(counterStatement(&c)); err != nil {
		return err
	}
	own := d.own(i)
	own.IDs, own.Retain, own.Old = c.IDs, c.Retain, c.Old
	return nil
}

// checkAges tells whether posts that are to be kept by age have one.
func checkAges(c *Counter) error {
	if c.Retain == 0 || c.IDs != (IDs{}) {
		return nil
	}
	return fail(ErrAttribute, "retain", "counter %s cannot have retain without ids: want ids= to say how post ids carry time", c.Name)
}

// sameAttributes is nil if st says nothing else about the attributes of a counter than c.
func sameAttributes(c *Counter, st Statement) error {
	var diff []Difference
	if st.SaysIDs && st.IDs != c.IDs {
		diff = append(diff, Difference{"ids", c.IDs.String(), st.IDs.String()})
	}
	if st.SaysRetain && st.Retain != c.Retain {
		diff = append(diff, Difference{"retain", string(appendRetain(nil, c.Retain)), string(appendRetain(nil, st.Retain))})
	}
	if st.SaysOld && st.Old != c.Old {
		diff = append(diff, Difference{"old", string(appendOld(nil, c.Old)), string(appendOld(nil, st.Old))})
	}
	if diff == nil {
		return nil
	}
	return &MismatchError{Counter: c.Name, Differences: diff}
}

// parseOld reads the value of the attribute old.
func parseOld(value string) (bool, error) {
	on := strings.EqualFold(value, "on")
	if !on && !strings.EqualFold(value, "off") {
		return false, fail(ErrAttribute, "old", "old=%s is neither: want on or off", quote(value))
	}
	return on, nil
}

// appendOld appends the value of the attribute old.
func appendOld(dst []byte, on bool) []byte {
	if on {
		return append(dst, "on"...)
	}
	return append(dst, "off"...)
}
