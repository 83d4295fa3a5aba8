package export

import (
	"fmt"
	"strconv"
	"strings"
)

// rowsPerInsert is how many posts an INSERT has: 500 of 60 columns are 600 KB at most, of the 4 MB that an old MySQL
// takes. Beyond 100 it costs SQLite and PostgreSQL nothing to have fewer.
const rowsPerInsert = 500

// statements are standard SQL that PostgreSQL, SQLite and MySQL take as it is. Names are quoted, as a column may be
// called "like"; MySQL reads the comment in the first line as the statement that makes it take such quotes. All rows are
// one transaction: half of a file leaves nothing in the database but empty tables.
//
//	/*!40101 SET SQL_MODE = CONCAT(@@SQL_MODE, ',ANSI_QUOTES') */;
//	CREATE TABLE IF NOT EXISTS "weibo" ( ... );
//	BEGIN;
//	INSERT INTO "weibo" ("mid", "repost") VALUES
//	(888888,1),
//	(888889,0);
//	COMMIT;
type statements struct {
	insert string // up to VALUES
	rows   int    // of the INSERT that is open
}

func (s *statements) Start(dst []byte) []byte {
	return append(dst, "/*!40101 SET SQL_MODE = CONCAT(@@SQL_MODE, ',ANSI_QUOTES') */;\n"...)
}

func (s *statements) Table(dst []byte, t *Table) []byte {
	dst = fmt.Appendf(dst, "CREATE TABLE IF NOT EXISTS %q (\n  %q BIGINT NOT NULL PRIMARY KEY", t.Counter.Name, t.Counter.Key)
	head := fmt.Sprintf("INSERT INTO %q (%q", t.Counter.Name, t.Counter.Key)
	t.names(func(i int, name string) {
		dst = fmt.Appendf(dst, ",\n  %q BIGINT NOT NULL DEFAULT %d", name, t.Counter.Col(t.Columns[i]).Default)
		head += fmt.Sprintf(", %q", name)
	})
	s.insert, s.rows = head+") VALUES\n", 0
	return append(dst, "\n);\nBEGIN;\n"...)
}

func (s *statements) Row(dst []byte, mid uint64, values []uint64) []byte {
	if s.rows == 0 {
		dst = append(dst, s.insert...)
	} else {
		dst = append(dst, ",\n"...)
	}
	dst = strconv.AppendUint(append(dst, '('), mid, 10)
	for _, v := range values {
		dst = strconv.AppendUint(append(dst, ','), v, 10)
	}
	dst = append(dst, ')')
	if s.rows++; s.rows == rowsPerInsert {
		dst = s.close(dst)
	}
	return dst
}

// close ends the INSERT that is open.
func (s *statements) close(dst []byte) []byte {
	if s.rows == 0 {
		return dst
	}
	s.rows = 0
	return append(dst, ";\n"...)
}

func (s *statements) End(dst []byte) []byte    { return append(s.close(dst), "COMMIT;\n"...) }
func (s *statements) Finish(dst []byte) []byte { return dst }

// CheckSQL tells whether the names of a table are different ones for databases, which take "Like" and "like" for one.
func CheckSQL(t *Table) (err error) {
	seen := map[string]string{strings.ToLower(t.Counter.Key): t.Counter.Key}
	t.names(func(_ int, name string) {
		if other, twice := seen[strings.ToLower(name)]; twice {
			err = fmt.Errorf("counter %s: databases take the names %q and %q for one: export one of them (--columns), or another format", t.Counter.Name, other, name)
		}
		seen[strings.ToLower(name)] = name
	})
	return err
}
