package main

import (
	"context"
	"io"
	"os"

	"github.com/counterd/counterd/bench"
	"github.com/counterd/counterd/internal/tsv"
)

// postFile is a file of posts that can be read more than once.
type postFile struct {
	name string
	open func() (io.ReadCloser, error)
	opts tsv.Options
}

func openPath(path string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return os.Open(path) }
}

// reader starts to read the file.
func (f postFile) reader() (*tsv.Reader, error) {
	src, err := f.open()
	if err != nil {
		return nil, err
	}
	r, err := tsv.New(f.name, src, f.opts)
	if err != nil {
		src.Close()
		return nil, err
	}
	return r, nil
}

// check reads the file to its end and returns its number of posts.
func (f postFile) check(ctx context.Context) (rows int, err error) {
	r, err := f.reader()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	row := make([]uint64, len(r.Columns()))
	for ; ; rows++ {
		if rows%4096 == 0 && ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if _, err := r.Read(row); err == io.EOF {
			return rows, nil
		} else if err != nil {
			return 0, err
		}
	}
}

// loadPlan is a file that fits a server: its columns are there, and each of its rows holds what they can.
type loadPlan struct {
	target bench.Target
	schema bench.Schema
	model  bench.Model
	file   postFile
	rows   int
}

// planLoad checks the file against the server, to its last line. Nothing is sent of a file that does not fit.
func planLoad(ctx context.Context, target bench.Target, counter string, file postFile) (*loadPlan, error) {
	r, err := file.reader()
	if err != nil {
		return nil, err
	}
	columns := r.Columns()
	r.Close()
	conn, err := target.Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	target, schemas, err := target.Identify(conn)
	if err != nil {
		return nil, err
	}

	schema := bench.Schema{Counter: counter}
	if target.Kind == bench.Counterd {
		if schema, err = bench.FindSchema(schemas, counter); err != nil {
			return nil, err
		}
		if schema, err = schema.Select(columns); err != nil {
			return nil, err
		}
	} else {
		for _, name := range columns {
			schema.Columns = append(schema.Columns, bench.Column{Name: name, Suffix: name, Bits: 63})
		}
	}
	model, err := bench.NewModel(target.Kind, schema)
	if err != nil {
		return nil, err
	}
	highest := map[string]uint64{}
	for i, name := range columns {
		highest[name] = min(model.Max(i), schema.Columns[i].Max())
	}
	file.opts.Max = func(column string) uint64 { return highest[column] }
	rows, err := file.check(ctx)
	return &loadPlan{target: target, schema: schema, model: model, file: file, rows: rows}, err
}

// send loads the file.
func (p *loadPlan) send(ctx context.Context, out output, clients int, showProgress bool) (bench.LoadResult, error) {
	r, err := p.file.reader()
	if err != nil {
		return bench.LoadResult{}, err
	}
	defer r.Close()
	shown := newProgress(out.Stderr, showProgress, "loading", "rows", p.rows)
	defer shown.finish()
	loader := bench.Loader{Target: p.target, Model: p.model, Columns: len(p.schema.Columns), Clients: clients, Progress: shown.add}
	return loader.Load(ctx, r.Read)
}
