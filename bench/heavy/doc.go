// Package heavy has the very large commands of counterbench run --heavy. One connection sends them while another one, which asks
// one command at a time, is measured. Each kind is a row of a table: a name, a line of help, and the commands that are sent
// in turn, with the number of replies to read behind each.
package heavy
