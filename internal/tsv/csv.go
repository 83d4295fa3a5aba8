package tsv

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
)

// recordMax bounds a record: a quote that is never closed would take the rest of the file.
const recordMax = 1 << 20

// startRecords makes r read quoted fields, and finds the columns' names.
func (r *Reader) startRecords(opts Options) error {
	limited := &limitedReader{src: r.src}
	r.records = csv.NewReader(limited)
	r.records.Comma, r.records.ReuseRecord, r.records.FieldsPerRecord = opts.Comma, true, -1
	r.src = limited
	names := opts.Columns
	first, err := r.record()
	switch {
	case err == io.EOF && len(names) > 0:
		return r.setColumns(names, opts)
	case err == io.EOF:
		return fmt.Errorf("%s: is empty", r.name)
	case err != nil:
		return err
	}
	header, isHeader := headerRecord(first)
	switch {
	case !isHeader && len(names) == 0:
		return &Error{File: r.name, Line: r.line, Got: fmt.Sprintf("%q", shorten([]byte(strings.Join(first, string(opts.Comma))))),
			Want: "a header line that names the columns, or names given by --columns"}
	case !isHeader:
		r.first = append([]string{}, first...)
	case len(names) == 0:
		names = header
	}
	return r.setColumns(names, opts)
}

// headerRecord returns the names in a record that is a header, as parseHeader does for a line. A column without a name is
// passed over.
func headerRecord(record []string) (names []string, ok bool) {
	marked := false
	for i, name := range record {
		if i == 0 {
			name, marked = strings.CutPrefix(name, "#")
		}
		if name = strings.TrimSpace(name); name == "" {
			name = "-"
		}
		if !marked && !isName(name) {
			return nil, false
		}
		names = append(names, name)
	}
	return names, true
}

// record reads the next record.
func (r *Reader) record() ([]string, error) {
	limited := r.src.(*limitedReader)
	limited.left = recordMax
	record, err := r.records.Read()
	var wrong *csv.ParseError
	switch {
	case err == nil:
		r.line, _ = r.records.FieldPos(0)
	case errors.Is(err, errRecord):
		return nil, &Error{File: r.name, Line: r.line + 1, Got: fmt.Sprintf("a record of over %d bytes", recordMax), Want: "a shorter one: is a quote not closed?"}
	case errors.As(err, &wrong):
		r.line = wrong.Line
		return nil, &Error{File: r.name, Line: wrong.Line, Got: wrong.Err.Error(), Want: "fields as RFC 4180 has them"}
	case err != io.EOF:
		err = fmt.Errorf("%s:%d: %w", r.name, r.line+1, err)
	}
	return record, err
}

// readRecord is Read for records.
func (r *Reader) readRecord(row []uint64) (id uint64, err error) {
	for {
		record := r.first
		if r.first = nil; record == nil {
			if record, err = r.record(); err != nil {
				return 0, err
			}
		}
		if strings.HasPrefix(record[0], "#") {
			continue
		}
		if len(record) != len(r.columns) {
			return 0, &Error{File: r.name, Line: r.line, Got: counted(len(record), "column"), Want: fmt.Sprint(len(r.columns))}
		}
		for i, field := range record {
			if err := r.put(i, []byte(field), row, &id); err != nil {
				return 0, err
			}
		}
		return id, nil
	}
}

// limitedReader reads so many bytes at most until it is told of more.
type limitedReader struct {
	src  io.Reader
	left int
}

var errRecord = errors.New("tsv: a record is too long")

func (l *limitedReader) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errRecord
	}
	n, err := l.src.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}
