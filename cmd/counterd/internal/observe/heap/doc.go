// Package heap keeps the memory of the Go runtime within the limits of the server: Limit tells the collector how far the heap
// may grow, and Releaser gives free memory and unused pages of the program back to the operating system.
package heap
