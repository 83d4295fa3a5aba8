package admin

import (
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/glob"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
)

func configRow[C any](on func(C) Conn) *command.Row[C] {
	const flags = command.Admin | command.NoScript | command.Loading | command.Stale
	return container(on, "config", "server", "2.0.0", "A container for commands about the configuration.",
		&command.Row[C]{Name: "config|get", Arity: -3, Flags: flags, Group: "server", Since: "2.0.0", Complexity: "O(N)", Syntax: "pattern [pattern ...]",
			Summary: "Returns the settings whose names match the patterns.", Run: handler(on, runConfigGet)},
		&command.Row[C]{Name: "config|set", Arity: -4, Flags: flags, Group: "server", Since: "2.0.0", Complexity: "O(N)", Syntax: "parameter value [parameter value ...]",
			Summary: "Changes settings, all or none. CONFIG REWRITE makes the changes permanent.", Run: handler(on, runConfigSet)},
		&command.Row[C]{Name: "config|resetstat", Arity: 2, Flags: flags, Group: "server", Since: "2.0.0", Complexity: "O(N) in the number of commands",
			Summary: "Resets the statistics of INFO.", Run: handler(on, runConfigResetStat)},
		&command.Row[C]{Name: "config|rewrite", Arity: 2, Flags: flags, Group: "server", Since: "2.8.0", Complexity: "O(1)",
			Summary: "Writes changed settings and the replication role to the configuration file.", Run: handler(on, runConfigRewrite)},
	)
}

// runConfigGet: CONFIG GET pattern [pattern ...]. A name that was asked for in capitals is answered so, as in Redis.
func runConfigGet(c Conn, args [][]byte) {
	conf := c.Server().Config.Get()
	var found [][2]string
	conf.Each(func(name, value string) {
		for _, pattern := range args[2:] {
			if strings.EqualFold(name, string(pattern)) {
				name = string(pattern)
			} else if !glob.Match(strings.ToLower(string(pattern)), name) {
				continue
			}
			found = append(found, [2]string{name, value})
			break
		}
	})
	c.Call().Out.Map(len(found))
	for _, f := range found {
		c.Call().Out.BulkString(f[0])
		c.Call().Out.BulkString(f[1])
	}
}

// runConfigSet: CONFIG SET parameter value [parameter value ...].
func runConfigSet(c Conn, args [][]byte) {
	if len(args)%2 != 0 {
		c.Call().Out.Error(items.ErrSyntax)
		return
	}
	pairs := make([]string, 0, len(args)-2)
	names := make(map[string]bool)
	for i, a := range args[2:] {
		pairs = append(pairs, string(a))
		if i%2 != 0 {
			continue
		}
		name := strings.ToLower(string(a))
		if names[name] {
			c.Call().Out.Error("ERR CONFIG SET failed (possibly related to argument '" + resp.Printable(a, 128) + "') - duplicate parameter")
			return
		}
		names[name] = true
	}
	if err := c.Server().Config.Set(pairs); err != nil {
		c.Call().Out.Error("ERR " + err.Error())
		return
	}
	c.Server().Configured(names["requirepass"])
	for i := 0; i < len(pairs); i += 2 {
		c.Server().Log.Info("configuration changed", "parameter", strings.ToLower(pairs[i]), "client", c.ID())
	}
	c.Call().Out.Status("OK")
}

func runConfigResetStat(c Conn, _ [][]byte) {
	c.Server().ResetStats()
	c.Call().Out.Status("OK")
}

func runConfigRewrite(c Conn, _ [][]byte) {
	conf := c.Server().Config.Get()
	if conf.ConfigFile == "" {
		c.Call().Out.Error("ERR The server is running without a config file")
		return
	}
	conf.Users = c.Server().UserLines(&conf)
	if err := conf.Rewrite(); err != nil {
		c.Server().Log.Error("CONFIG REWRITE failed", "file", conf.ConfigFile, "error", err)
		c.Call().Out.Error("ERR Rewriting config file: " + err.Error())
		return
	}
	c.Call().Out.Status("OK")
}
