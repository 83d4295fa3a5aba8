// Package brake slows clients down that ask for more than a server should do for them: it never refuses.
//
//	Line     a token bucket with a queue in front of it, first come, first served
//	Guesses  a Line for each address of clients that give wrong passwords
//
// It knows neither protocols nor passwords.
package brake
