//go:build profile

package main

import (
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
)

// A program that is built with this (go build -tags profile) writes what its processor time goes to, for the compiler:
// make pgo. SIGUSR2 begins a profile and ends it, in files FILE.0, FILE.1 and so on of the variable COUNTERD_PROFILE.
func init() {
	path := os.Getenv("COUNTERD_PROFILE")
	if path == "" {
		return
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR2)
	go func() {
		for n := 0; ; n++ {
			<-signals
			file, err := os.Create(fmt.Sprintf("%s.%d", path, n))
			if err == nil {
				err = pprof.StartCPUProfile(file)
			}
			if err != nil {
				log.Fatal("profile: ", err)
			}
			<-signals
			pprof.StopCPUProfile()
			if err := file.Close(); err != nil {
				log.Fatal("profile: ", err)
			}
		}
	}()
}
