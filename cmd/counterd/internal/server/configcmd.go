package server

import (
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/glob"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
)

func configCommand() *row {
	const flags = command.Admin | command.NoScript | command.Loading | command.Stale
	return container("config", "server", "2.0.0", "A container for commands about the configuration.",
		&row{Name: "config|get", Arity: -3, Flags: flags, Group: "server", Since: "2.0.0", Complexity: "O(N)", Syntax: "pattern [pattern ...]",
			Summary: "Returns the settings whose names match the patterns.", Run: on(runConfigGet)},
		&row{Name: "config|set", Arity: -4, Flags: flags, Group: "server", Since: "2.0.0", Complexity: "O(N)", Syntax: "parameter value [parameter value ...]",
			Summary: "Changes settings, all or none. CONFIG REWRITE makes the changes permanent.", Run: on(runConfigSet)},
		&row{Name: "config|resetstat", Arity: 2, Flags: flags, Group: "server", Since: "2.0.0", Complexity: "O(N) in the number of commands",
			Summary: "Resets the statistics of INFO.", Run: on(runConfigResetStat)},
		&row{Name: "config|rewrite", Arity: 2, Flags: flags, Group: "server", Since: "2.8.0", Complexity: "O(1)",
			Summary: "Writes changed settings and the replication role to the configuration file.", Run: on(runConfigRewrite)},
	)
}

// runConfigGet: CONFIG GET pattern [pattern ...]. A name that was asked for in capitals is answered so, as in Redis.
func runConfigGet(c *call, args [][]byte) {
	conf := c.srv.config.Get()
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
	c.Out.Map(len(found))
	for _, f := range found {
		c.Out.BulkString(f[0])
		c.Out.BulkString(f[1])
	}
}

// runConfigSet: CONFIG SET parameter value [parameter value ...].
func runConfigSet(c *call, args [][]byte) {
	if len(args)%2 != 0 {
		c.Out.Error(items.ErrSyntax)
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
			c.Out.Error("ERR CONFIG SET failed (possibly related to argument '" + resp.Printable(a, 128) + "') - duplicate parameter")
			return
		}
		names[name] = true
	}
	if err := c.srv.config.Set(pairs); err != nil {
		c.Out.Error("ERR " + err.Error())
		return
	}
	c.srv.configured()
	if names["requirepass"] {
		c.srv.users.SetPassword(c.srv.config.Get().RequirePass)
	}
	c.srv.node.RoleChanged() // min-replicas-to-write, replica-serve-stale-data
	for i := 0; i < len(pairs); i += 2 {
		c.srv.log.Info("configuration changed", "parameter", strings.ToLower(pairs[i]), "client", c.session.ID())
	}
	c.Out.Status("OK")
}

func runConfigResetStat(c *call, _ [][]byte) {
	c.srv.stats.Reset()
	c.srv.commands.Each((*row).ResetStats)
	c.Out.Status("OK")
}

func runConfigRewrite(c *call, _ [][]byte) {
	conf := c.srv.config.Get()
	if conf.ConfigFile == "" {
		c.Out.Error("ERR The server is running without a config file")
		return
	}
	conf.Users = c.srv.userLines(&conf)
	if err := conf.Rewrite(); err != nil {
		c.srv.log.Error("CONFIG REWRITE failed", "file", conf.ConfigFile, "error", err)
		c.Out.Error("ERR Rewriting config file: " + err.Error())
		return
	}
	c.Out.Status("OK")
}
