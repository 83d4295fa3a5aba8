package console

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/facts"
)

// Settings are those that an operator looks for first.
func Settings(conf config.Config, version, address string, started time.Time) []Setting {
	list := []Setting{
		{Name: "Version", Value: version},
		{Name: "Uptime", Value: Span(time.Since(started)) + ", since " + started.UTC().Format("2006-01-02 15:04:05") + " UTC"},
		{Name: "Address", Value: address},
		{Name: "Process id", Value: strconv.Itoa(os.Getpid())},
		{Name: "Durability", Value: durabilityText(conf.AppendOnly, conf.AppendFsync)},
	}
	add := func(yes bool, name, value string) {
		if yes {
			list = append(list, Setting{Name: name, Value: value})
		}
	}
	add(conf.ReadonlyPort != 0, "Port for reads", strconv.Itoa(conf.ReadonlyPort))
	add(conf.TLS.Port != 0, "TLS port", strconv.Itoa(conf.TLS.Port))
	add(conf.UnixSocket != "", "Unix socket", facts.Clip(conf.UnixSocket))
	add(conf.AppendOnly, "Data directory", facts.Clip(conf.Dir))
	add(conf.AOFRewriteMin > 0, "Snapshots", "after each "+Bytes(conf.AOFRewriteMin)+" of log, at least")
	add(conf.AOFRewriteMin == 0, "Snapshots", "only with BGSAVE or SAVE")
	add(true, "Slow commands", fmt.Sprintf("%s or longer", time.Duration(max(0, conf.SlowlogSlower))*time.Microsecond))
	add(conf.ConfigFile != "", "Configuration file", facts.Clip(conf.ConfigFile))
	return list
}

// durabilityText names the failures that an acknowledged change survives.
func durabilityText(kept bool, fsync string) string {
	switch {
	case !kept:
		return "in memory only: all data is lost when the process ends"
	case fsync == "always":
		return "on disk before the reply (appendfsync always)"
	case fsync == "everysec":
		return "survives a killed process; synced to disk every second (appendfsync everysec)"
	}
	return "survives a killed process; synced to disk when the operating system chooses (appendfsync " + fsync + ")"
}
