package main

import (
	"context"
	"os"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/bench/report"
)

var pageCommand = command{
	Name:    "page",
	Args:    "FILE.json...",
	Summary: "write the measurements of several runs as one HTML page",
	Details: `Shows what counterbench run --json and idle --json wrote, and the measurements of scripts (counterbench record), on one
page with charts that needs nothing beside itself: latency over time with what the server did meanwhile, tables beside other
servers, and the goals that measurements have.

  counterbench page tails-redis.json tails-valkey.json measurements.json --html page.html`,
	Setup: func(flags *pflag.FlagSet) action {
		html := flags.String("html", "", "`FILE` to write the page to (default: standard output)")
		title := flags.String("title", "", "`text` at the head of the page")
		return func(_ context.Context, out output, args []string) error {
			all, err := collect(args)
			if err != nil {
				return err
			}
			all.Title = *title
			if *html == "" {
				return all.HTML(out.Stdout)
			}
			return writeTo(*html, all.HTML)
		}
	},
}

// collect reads the files of page and markdown.
func collect(files []string) (*report.Collected, error) {
	if len(files) == 0 {
		return nil, misuse("takes one file or more that counterbench wrote")
	}
	return report.Collect(files)
}

var recordCommand = command{
	Name:    "record",
	Args:    "FILE VALUE...",
	Summary: "add one measurement to a file, for page and markdown",
	Details: `Appends a line of JSON to FILE, which is created if it does not exist: a value that a script measured, or several values of
repeated measurements. The measurements of a section share a table, with a row for each name and case and a column for each --of.

  counterbench record measurements.json --section 'Very large' --name disk --of counterd --unit 'bytes a post' --goal '<= 2.2' 2.13
  counterbench record measurements.json --section Size --name INCR --case '100 M posts' --of counterd --unit us 0.61 0.62 0.60`,
	Setup: func(flags *pflag.FlagSet) action {
		var f report.Measurement
		flags.StringVar(&f.Section, "section", "", "`part` of the page")
		flags.StringVar(&f.Name, "name", "", "`what` was measured")
		flags.StringVar(&f.Case, "case", "", "on `what`, where one name was measured on several: 100 M posts")
		flags.StringVar(&f.Of, "of", "counterd", "`whose` it is")
		flags.StringVar(&f.Unit, "unit", "", "`unit` of the values: ns, us, ms and s are times, bytes sizes, x ratios; any other is\nwritten behind the number")
		flags.StringVar(&f.Goal, "goal", "", "`bound` in the unit, such as '<= 2.2' or '>= 5e6'")
		flags.StringVar(&f.Note, "note", "", "`how` it was measured")
		return func(_ context.Context, _ output, args []string) error {
			if len(args) < 2 {
				return misuse("takes a file and a value or more")
			}
			for _, arg := range args[1:] {
				v, err := strconv.ParseFloat(arg, 64)
				if err != nil {
					return misuse("%q is no number", arg)
				}
				f.Values = append(f.Values, v)
			}
			if err := f.Validate(); err != nil {
				return misuse("%v", err)
			}
			file, err := os.OpenFile(args[0], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
			if err != nil {
				return err
			}
			err = f.AppendTo(file)
			if closed := file.Close(); err == nil {
				err = closed
			}
			return err
		}
	},
}
