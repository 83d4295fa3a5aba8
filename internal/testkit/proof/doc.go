// Command proof searches for faults for as long as it may, with all random tests of the project, and writes one page about the search:
//
//	make proof TIME=30m
//	make proof TIME=24h PROOF=/var/tmp/proof
//
// # Steps and rounds
//
// A step is one test binary with its flags (steps.go): crash points of the log, simulated clusters, one fuzz target, failovers of real
// processes. A round runs a step once, with a seed of its own. The runner always starts a round of the step that has used the smallest
// part of its share of the time, so a long run does more of everything. It does not start a round that will not end in time, and it
// never stops a round: a test that is killed would leave its servers behind. Of steps that have had no round, the shortest begins first
// and fuzzing last, and rounds of fuzzing and of the soak are as long as the time allows, so that 30 minutes of two idle processors
// have a round of every step. A test binary is compiled when its first round begins, and kept. Compiling is part of the time.
//
// A step that the machine cannot run, without root or etcd, is left out, and the page says so first.
//
// # Resume
//
// Each round that ended is a line of journal.jsonl. A later run in the same folder counts these rounds and goes on with new seeds. Their
// time counts too: TIME is the time of all runs together. A journal of another commit is refused, because a page speaks of one commit.
//
// # Findings
//
// A round that fails is a finding. Its whole output is kept in findings/, and the page shows the lines that tell how to replay it. The
// search goes on behind a finding; the command then ends with status 1.
package main
