// Package addload measures the cost of an INCR for a server in several forms: of a plain column, of a column that a window counts, and with
// numbers of producers. All cases make the same additions to the same posts, in turns, so that other work of the machine affects all of them.
package addload
