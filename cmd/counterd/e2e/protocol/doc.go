// Package protocol tests what counterd answers: compared with redis-server byte for byte, and to clients that mean harm.
//
// # Files
//
//	main_test.go                 builds counterd
//	startup_test.go              flags, sockets, starts that must fail
//	shutdown_test.go             what a stopping server still answers
//	protocol_test.go cases_test.go  raw input and error texts; written sequences, those of
//	transactioncases_test.go commandcases_test.go  transactions, and of refused commands and connections
//	differential_test.go generate_test.go  random sequences of commands
//	differences_test.go          the table of all intended differences from Redis
//	commandtable_test.go         what COMMAND says
//	scan_test.go                 SCAN while posts come and go
//	users_test.go tls_test.go    rights of users; TLS: clients, reloads, handshakes that stall, Sentinel
//	hostile_test.go              packets and connections that mean harm
package protocol
