// Package report holds what a benchmark run measured, and shows it: as a table for a person, as JSON, as one HTML page
// with charts, and side by side with another run. It knows nothing of servers and sockets.
//
// A run has phases, one a workload; a phase has a result for each of one or two servers; a result has slices of time.
// The servers take turns, slice by slice, so that whatever else the machine does hits both alike. Each number is the
// median over the slices with the lowest and the highest; a ratio is taken slice by slice and then its median.
//
// A run in which something else was made to happen has a While for each such thing, in place of phases: latencies with
// and without it, and over time. Collected is several runs, and Measurements of scripts, on one page or as
// Markdown.
//
// # Files
//
//	report.go table.go                                         a run, and its table
//	compare.go markdown.go                                     two runs side by side; several as Markdown
//	html.go chart.go timechart.go sizing.go                    a page of one run, its charts, how many machines a load takes
//	collected.go collected_html.go measurement.go              several runs and measurements of scripts on one page
//	while.go idle.go                                           with and without something else; open connections
//	format.go grid.go                                          numbers and tables of text
package report
