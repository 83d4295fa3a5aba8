package reference

// extra is what the page of commands has of a command beside what the server says of it. Examples are lines separated by
// semicolons; the test runs them on an empty server and prints the replies.
type extra struct{ reply, errors, differs, example string }

const (
	overflow = "`ERR increment or decrement would overflow` if the result is below 0 or above the column's `max`"
	notInt   = "`ERR value is not an integer or out of range`"
	wrong    = "`WRONGTYPE` if the key names a whole post"
	notHere  = "`ERR`, always"
)

// extras has every command that has no subcommands.
var extras = map[string]extra{
	// Posts and queries
	"counter.mget": {reply: "Array with one element for each id: an array of the values in schema order (or in the order of `COLUMNS`), or nil if the post does not exist",
		errors: "`IOERR` as an element, for a post that cannot be read", differs: "not in Redis",
		example: "COUNTER.MSET weibo 7 1 2 3;COUNTER.MGET weibo 7 8;COUNTER.MGET weibo 7 COLUMNS repost"},
	"counter.mset": {reply: "Integer: the number of posts", errors: notInt + "; `UNCERTAIN` if the change is not yet safe on disk", differs: "not in Redis. At most 4,096 posts per command; not in `MULTI`",
		example: "COUNTER.MSET weibo 7 1 2 3 8 4 5 6;COUNTER.MSET weibo 7 100 8 200 COLUMNS repost;HGETALL 7"},
	"counter.mincrby": {reply: "Array of the new values, in the order of the keys. With `QUIET`, integer: the number of counters that changed",
		errors: overflow + ", as an element; `IOERR` as an element", differs: "not in Redis. Without `QUIET` or `IDMP`, each increment is a change of its own",
		example: "COUNTER.MINCRBY 7.cntrn 1 8.cntrn 5;COUNTER.MINCRBY 7.cntrn 1 8.cntrn 5 QUIET"},
	"counter.drain":     {reply: "Array of the values before the reset", differs: "not in Redis", example: "MSET 7.cntrn 12 8.cntrn 3;COUNTER.DRAIN 7.cntrn 8.cntrn;GET 7.cntrn"},
	"counter.hot":       {reply: "Array of `[id, writes per second, reads per second]`, estimated from one operation in 512", differs: "not in Redis"},
	"counter.producers": {reply: "Array with one description per producer", differs: "not in Redis"},
	"idmp|last":         {reply: "Integer: the highest applied number, or nil if the producer is not remembered", differs: "not in Redis", example: "INCR 7.cntrn IDMP web-1 41;IDMP LAST web-1"},
	"idmp|fence": {reply: "Integer: the new epoch", errors: "`IDMPFULL` if the producer is new and cannot be remembered", differs: "not in Redis",
		example: "IDMP FENCE job-1;INCR 7.cntrn IDMP job-1 1"},
	"counter.find": {reply: "Array of `[id, value ...]`. With `CURSOR`, `[next cursor, posts]`; the iteration ends with cursor 0", errors: "`ERR` for an unknown column or a cursor of other conditions",
		differs: "not in Redis. At most 10,000 posts per call. In a cluster, `OFFSET` is refused",
		example: "COUNTER.MSET weibo 7 1 2 3 8 4 50 6;COUNTER.FIND weibo WHERE repost >= 10;COUNTER.FIND weibo MID IN 7 8 LIMIT 1 COLUMNS comment"},
	"counter.top":   {reply: "Array of `[id, value]`, largest value first", differs: "not in Redis. At most 10,000 posts", example: "COUNTER.MSET weibo 7 1 2 3 8 4 50 6;COUNTER.TOP weibo repost 1"},
	"counter.count": {reply: "Integer", differs: "not in Redis", example: "COUNTER.MSET weibo 7 1 2 3 8 4 50 6;COUNTER.COUNT weibo WHERE comment < 4"},
	"counter.sum":   {reply: "Integer. Above 2^63-1, a big number in RESP3 and a string in RESP2", differs: "not in Redis", example: "COUNTER.MSET weibo 7 1 2 3 8 4 50 6;COUNTER.SUM weibo repost"},
	"counter.min":   {reply: "Integer, or nil if no post matches", differs: "not in Redis", example: "COUNTER.MSET weibo 7 1 2 3 8 4 50 6;COUNTER.MIN weibo repost"},
	"counter.max":   {reply: "Integer, or nil if no post matches", differs: "not in Redis", example: "COUNTER.MSET weibo 7 1 2 3 8 4 50 6;COUNTER.MAX weibo repost"},
	"counter.update": {reply: "Integer: the number of changed posts. With `RETURNING`, array of `[id, value ...]`", errors: "`UNCERTAIN` with the number of changed posts if the update could not finish",
		differs: "not in Redis. Posts that the change would take out of a column's range stay unchanged and are not counted",
		example: "COUNTER.MSET weibo 7 1 2 3 8 4 50 6;COUNTER.UPDATE weibo WHERE repost > 10 SET comment 0 INCR attitude 1 RETURNING NEW"},
	"counter.blocks":  {reply: "Array with one line per block: tier, id range, posts, bytes, widths of the columns", differs: "not in Redis"},
	"counter.digest":  {reply: "Array of lines: counter, number of posts and checksum; with `PARTS`, one line per part", differs: "not in Redis"},
	"counter.demote":  {reply: "`OK`", errors: "`ERR` if the block cannot move: the last block stays in memory", differs: "not in Redis"},
	"counter.promote": {reply: "`OK`", errors: "`ERR` if the block is not cold, or if memory is full", differs: "not in Redis"},
	"counter.scrub":   {reply: "A status text", differs: "not in Redis", example: "COUNTER.SCRUB"},
	"add":             {reply: "`OK`", errors: "`ERR` if the column exists with another definition", differs: "not in Redis", example: "ADD COUNTER pages;ADD COLUMN pages views hint=16 suffix=views;INCR pages:1.views;DROP COUNTER pages"},
	"drop":            {reply: "`OK`", errors: "`ERR` if it does not exist", differs: "not in Redis"},
	"schema":          {reply: "Array of lines", differs: "not in Redis", example: "SCHEMA"},
	"counter.link":    {reply: "`OK`", differs: "not in Redis"},

	// Single counters
	"get":    {reply: "The value as a string, or nil if the post does not exist", errors: wrong, differs: "a key that the schema does not know reads as nil", example: "SET 7.cntrn 41;GET 7.cntrn;GET 8.cntrn"},
	"mget":   {reply: "Array of values, nil for a post that does not exist", errors: "`IOERR` as an element, for a post that cannot be read; `CROSSSLOT` in a cluster if a client with cluster support sends it to one node only", differs: "of two changes by other commands during the call, it may see the later one alone", example: "MSET 7.cntrn 1 8.cntrn 2;MGET 7.cntrn 8.cntrn 9.cntrn"},
	"set":    {reply: "`OK`; nil if `NX` or `XX` prevented the change; with `GET` the previous value", errors: notInt + "; " + wrong, differs: "`EX`, `PX`, `EXAT` and `PXAT` are refused: counters do not expire", example: "SET 7.cntrn 41;SET 7.cntrn 1 NX;SET 7.cntrn 50 GET"},
	"mset":   {reply: "`OK`", errors: notInt + "; `CROSSSLOT` in a cluster for posts of several hash slots", example: "MSET 7.cntrn 1 7.cntcm 2;HGETALL 7"},
	"setnx":  {reply: "Integer: 1 if the counter was set, 0 otherwise", errors: notInt, differs: "all counters of a post exist as soon as the post exists", example: "SETNX 7.cntrn 5;SETNX 7.cntcm 5"},
	"getset": {reply: "The previous value, or nil", errors: notInt, example: "SET 7.cntrn 41;GETSET 7.cntrn 0"},
	"getdel": {reply: "The value before the reset, or nil", errors: wrong, differs: "resets the counter to its default; the post stays", example: "SET 7.cntrn 41;GETDEL 7.cntrn;GET 7.cntrn"},
	"incr":   {reply: "Integer: the new value", errors: overflow + "; " + wrong, differs: "a counter stays between 0 and its `max`", example: "INCR 7.cntrn;INCR 7.cntrn"},
	"incrby": {reply: "Integer: the new value", errors: overflow + "; " + notInt, differs: "a counter stays between 0 and its `max`", example: "INCRBY 7.cntrn 5 IDMP web-2 1;INCRBY 7.cntrn 5 IDMP web-2 1;GET 7.cntrn"},
	"decr":   {reply: "Integer: the new value", errors: overflow, differs: "a counter cannot fall below 0", example: "SET 7.cntrn 1;DECR 7.cntrn;DECR 7.cntrn"},
	"decrby": {reply: "Integer: the new value", errors: overflow + "; " + notInt, differs: "a counter cannot fall below 0", example: "SET 7.cntrn 10;DECRBY 7.cntrn 4"},
	"increx": {reply: "Array: the new value and the applied increment", errors: notInt, example: "INCREX 7.cntrn BYINT 5 UBOUND 8;INCREX 7.cntrn BYINT 5 UBOUND 8;INCREX 7.cntrn BYINT 5 UBOUND 8 SATURATE"},
	"strlen": {reply: "Integer, 0 if the post does not exist", errors: wrong, example: "SET 7.cntrn 1234;STRLEN 7.cntrn"},

	// Posts as hashes
	"hget":    {reply: "The value, or nil if the post or the column does not exist", differs: "fields are column names or suffixes", example: "HSET 7 repost 3;HGET 7 repost;HGET 7 cntrn"},
	"hmget":   {reply: "Array of values", example: "HSET 7 repost 3;HMGET 7 repost comment"},
	"hgetall": {reply: "Array of names and values (a map in RESP3), empty if the post does not exist", example: "HSET 7 repost 3;HGETALL 7"},
	"hset":    {reply: "Integer: the number of given columns if the post is new, otherwise 0", errors: notInt + "; `ERR` for an unknown column", differs: "an existing post has all columns, so its number of new fields is 0; unknown fields are refused", example: "HSET 7 repost 3 comment 1;HSET 7 repost 4"},
	"hmset":   {reply: "`OK`", errors: notInt, example: "HMSET 7 repost 3 comment 1"},
	"hsetnx":  {reply: "Integer: 1 if the column was set, 0 otherwise", errors: notInt, differs: "an existing post has all columns", example: "HSETNX 7 repost 3;HSETNX 7 comment 1"},
	"hincrby": {reply: "Integer: the new value", errors: overflow, example: "HINCRBY 7 repost 2;HINCRBY 7 repost -3"},
	"hexists": {reply: "Integer: 1 or 0", example: "HSET 7 repost 3;HEXISTS 7 comment;HEXISTS 7 likes"},
	"hlen":    {reply: "Integer, 0 if the post does not exist", example: "HSET 7 repost 3;HLEN 7"},
	"hstrlen": {reply: "Integer", example: "HSET 7 repost 345;HSTRLEN 7 repost"},
	"hkeys":   {reply: "Array of names", example: "HSET 7 repost 3;HKEYS 7"},
	"hvals":   {reply: "Array of values", example: "HSET 7 repost 3;HVALS 7"},
	"hdel":    {reply: "Integer: the number of given columns, or 0 if the post does not exist", differs: "resets columns to their defaults; the post stays", example: "HSET 7 repost 3;HDEL 7 repost comment;HGETALL 7"},
	"hscan":   {reply: "Array: cursor 0, and an array of names and values", differs: "a post has at most 64 columns, so one call returns all", example: "HSET 7 repost 3;HSCAN 7 0 MATCH r*"},

	// Keys
	"del":             {reply: "Integer: the number of keys that existed", differs: "`DEL MID` deletes a post; `DEL MID.suffix` resets one counter to its default, the post stays", example: "HSET 7 repost 3;DEL 7;EXISTS 7"},
	"unlink":          {reply: "Integer: the number of keys that existed"},
	"exists":          {reply: "Integer: the number of keys that exist", example: "HSET 7 repost 3;EXISTS 7 7.cntcm 8"},
	"touch":           {reply: "Integer: the number of keys that exist"},
	"type":            {reply: "`hash`, `string` or `none`", example: "HSET 7 repost 3;TYPE 7;TYPE 7.cntrn;TYPE 8"},
	"ttl":             {reply: "Integer: -1 or -2", example: "HSET 7 repost 3;TTL 7"},
	"pttl":            {reply: "Integer: -1 or -2"},
	"expiretime":      {reply: "Integer: -1 or -2"},
	"pexpiretime":     {reply: "Integer: -1 or -2"},
	"expire":          {reply: "none", errors: notHere, differs: "refused instead of ignored", example: "EXPIRE 7 60"},
	"pexpire":         {reply: "none", errors: notHere, differs: "refused instead of ignored"},
	"expireat":        {reply: "none", errors: notHere, differs: "refused instead of ignored"},
	"pexpireat":       {reply: "none", errors: notHere, differs: "refused instead of ignored"},
	"persist":         {reply: "Integer: 0"},
	"scan":            {reply: "Array: the next cursor, and an array of keys. Cursor 0 ends the iteration", errors: "`IOERR` with the ids that cannot be read and the cursor to continue with", differs: "keys come in order of post id, and a cursor stays valid across restarts and nodes", example: "MSET 7.cntrn 1 8.cntrn 2;SCAN 0;SCAN 0 TYPE string MATCH *.cntrn"},
	"keys":            {reply: "Array of keys", errors: "`ERR` if more than 1,048,576 posts would have to be examined", example: "MSET 7.cntrn 1 8.cntrn 2;KEYS 7*"},
	"randomkey":       {reply: "A key, or nil if there are no posts"},
	"object|encoding": {reply: "`int` or `listpack`"}, "object|refcount": {reply: "Integer: 1"},
	"object|idletime": {reply: "none", errors: notHere}, "object|freq": {reply: "none", errors: notHere},
	"wait":    {reply: "Integer: the number of replicas", errors: "`UNBLOCKED` if `CLIENT UNBLOCK` or a role change ended it", differs: "a replica acknowledges a change when the change is as safe on its disk as `appendfsync` asks"},
	"waitaof": {reply: "Array: 1 or 0 for the local disk, and the number of replicas", errors: "`UNBLOCKED`"},

	// Transactions
	"multi":   {reply: "`OK`", differs: "`SUBSCRIBE`, `MONITOR`, `CLIENT REPLY`, `COUNTER.MSET` and queries are refused in a transaction", example: "MULTI;INCR 7.cntrn;INCR 7.cntcm;EXEC"},
	"exec":    {reply: "Array of replies, or nil if a watched key changed", errors: "`EXECABORT` if a command could not be queued, or if the node cannot accept the changes; the reason follows `because of:`", differs: "the transaction is one change for clients, replicas and after a crash"},
	"discard": {reply: "`OK`", example: "MULTI;INCR 7.cntrn;DISCARD"},
	"watch":   {reply: "`OK`", errors: "`ERR` above 4,096 keys", differs: "`FLUSHALL` aborts every transaction that watches a key, even a key that did not exist"},
	"unwatch": {reply: "`OK`"},

	// Publish and subscribe
	"subscribe": {reply: "One message per channel"}, "unsubscribe": {reply: "One message per channel"}, "psubscribe": {reply: "One message per pattern"}, "punsubscribe": {reply: "One message per pattern"},
	"ssubscribe": {reply: "One message per channel"}, "sunsubscribe": {reply: "One message per channel"},
	"publish":         {reply: "Integer: subscribers on this node", differs: "reaches subscribers of this node and of its replicas, not of other shards", example: "PUBLISH news hello"},
	"spublish":        {reply: "Integer: subscribers on this node"},
	"pubsub|channels": {reply: "Array of names"}, "pubsub|numsub": {reply: "Array of names and numbers"}, "pubsub|numpat": {reply: "Integer"}, "pubsub|shardchannels": {reply: "Array of names"}, "pubsub|shardnumsub": {reply: "Array of names and numbers"},

	// Connections
	"ping":        {reply: "`PONG` or the message", errors: "`MISCONF` to Sentinel's connections while the disk hangs, so that Sentinel fails over", example: "PING"},
	"echo":        {reply: "The message"},
	"quit":        {reply: "`OK`"},
	"reset":       {reply: "`RESET`"},
	"select":      {reply: "`OK`", errors: "`ERR DB index is out of range` for any other number", example: "SELECT 0;SELECT 1"},
	"hello":       {reply: "Map of properties of the server", errors: "`NOPROTO` for versions other than 2 and 3; `WRONGPASS`", differs: "an error in any option leaves the connection unchanged, the user included"},
	"auth":        {reply: "`OK`", errors: "`WRONGPASS`", differs: "after three wrong passwords in a row, each answer to the connection takes one second"},
	"client|list": {reply: "String with one line per connection"}, "client|info": {reply: "String with one line"}, "client|id": {reply: "Integer"}, "client|kill": {reply: "Integer: closed connections; `OK` in the old form"},
	"client|getname": {reply: "The name, or nil"}, "client|setname": {reply: "`OK`"}, "client|setinfo": {reply: "`OK`"},
	"client|tracking": {reply: "`OK`", differs: "with `NOLOOP`, a connection's own change leaves its keys tracked. See [Clients](clients.md#caches-in-clients)"},
	"client|caching":  {reply: "`OK`"}, "client|trackinginfo": {reply: "Map"}, "client|getredir": {reply: "Integer"}, "client|no-evict": {reply: "`OK`"}, "client|no-touch": {reply: "`OK`"},
	"client|reply": {reply: "`OK` for `ON`, nothing otherwise"}, "client|unblock": {reply: "Integer: 1 or 0"}, "client|pause": {reply: "`OK`"}, "client|unpause": {reply: "`OK`"},
	"client|idmp": {reply: "`OK`", differs: "not in Redis", example: "CLIENT IDMP web-3 1;INCR 7.cntrn;IDMP LAST web-3;CLIENT IDMP OFF"},

	// Server
	"dbsize":   {reply: "Integer", example: "MSET 7.cntrn 1 8.cntrn 2;DBSIZE"},
	"flushall": {reply: "`OK`", errors: "`ERR` in a cluster while groups of hash slots move", differs: "`IDMP` is not accepted. `ASYNC` and `SYNC` have the same effect", example: "HSET 7 repost 3;FLUSHALL;DBSIZE"},
	"flushdb":  {reply: "`OK`"},
	"lastsave": {reply: "Integer"}, "save": {reply: "`OK`", errors: "`ERR` with `appendonly no`, or if a snapshot is running"}, "bgsave": {reply: "A status text"}, "bgrewriteaof": {reply: "A status text"},
	"role": {reply: "Array, as in Redis"}, "replicaof": {reply: "`OK`", errors: "`ERR` on a node of a cluster"}, "slaveof": {reply: "`OK`"},
	"replconf": {reply: "Depends on the option"}, "psync": {reply: "The replication stream"}, "sync": {reply: "A stream of commands"},
	"failover": {reply: "`OK`; `INFO replication` shows the progress as `master_failover_state`", errors: "`ERR` without a connected replica, or on a node of a cluster"},
	"command":  {reply: "Array of command details"}, "command|count": {reply: "Integer"}, "command|info": {reply: "Array, nil for an unknown command"}, "command|docs": {reply: "Map by command name"},
	"command|list": {reply: "Array of names"}, "command|getkeys": {reply: "Array of keys", example: "COMMAND GETKEYS MSET 7.cntrn 1 8.cntrn 2"}, "command|getkeysandflags": {reply: "Array of `[key, flags]`"},
	"config|get":     {reply: "Array of names and values (a map in RESP3)", example: "CONFIG GET appendfsync"},
	"config|set":     {reply: "`OK`", errors: "`ERR` for an unknown, fixed or invalid setting; then nothing changes", example: "CONFIG SET port 7000"},
	"config|rewrite": {reply: "`OK`", errors: "`ERR` if the server runs without `--config`"}, "config|resetstat": {reply: "`OK`"},
	"slowlog|get": {reply: "Array of entries"}, "slowlog|len": {reply: "Integer"}, "slowlog|reset": {reply: "`OK`"},
	"monitor":           {reply: "`OK`, then one line per command", differs: "cuts arguments at 1 KiB and lines at 64 KiB. Refused in `MULTI`"},
	"latency|histogram": {reply: "Map by command name"}, "latency|latest": {reply: "Empty array"}, "latency|history": {reply: "Empty array"}, "latency|graph": {reply: "none", errors: notHere}, "latency|reset": {reply: "Integer: 0"}, "latency|doctor": {reply: "String"},
	"memory|usage": {reply: "Integer, or nil if the post does not exist"}, "memory|stats": {reply: "Map of names and bytes"}, "memory|doctor": {reply: "String"}, "memory|purge": {reply: "`OK`"}, "memory|malloc-stats": {reply: "String"},
	"acl|whoami": {reply: "The name", example: "ACL WHOAMI"}, "acl|cat": {reply: "Array of names"}, "acl|setuser": {reply: "`OK`", errors: "`ERR` with the wrong rule; then nothing changes"}, "acl|getuser": {reply: "Map, or nil"}, "acl|deluser": {reply: "Integer: deleted users"},
	"acl|list": {reply: "Array of lines"}, "acl|users": {reply: "Array of names"}, "acl|dryrun": {reply: "`OK`, or the reason as a string", example: "ACL SETUSER app on nopass ~weibo:* +@read;ACL DRYRUN app GET 7.cntrn;ACL DRYRUN app INCR 7.cntrn;ACL DELUSER app"},
	"acl|log": {reply: "Array of entries, or `OK` for `RESET`"}, "acl|genpass": {reply: "String"}, "acl|load": {reply: "`OK`", errors: "`ERR` with all invalid lines"}, "acl|save": {reply: "`OK`"},
	"info": {reply: "String with sections of `name:value` lines. See [Monitoring](../operate/monitoring.md)"}, "time": {reply: "Array of two strings"}, "shutdown": {reply: "none: the connection closes"},
	"module|list": {reply: "Empty array"}, "function|list": {reply: "Empty array"}, "function|flush": {reply: "`OK`"},

	// Cluster
	"cluster|info": {reply: "String"}, "cluster|nodes": {reply: "String with one line per node"}, "cluster|slots": {reply: "Array"}, "cluster|shards": {reply: "Array"}, "cluster|myid": {reply: "String"}, "cluster|myshardid": {reply: "String"},
	"cluster|links": {reply: "Empty array"}, "cluster|keyslot": {reply: "Integer", errors: "`ERR` without a cluster"}, "cluster|countkeysinslot": {reply: "Integer"}, "cluster|getkeysinslot": {reply: "Array of keys"},
	"cluster|count-failure-reports": {reply: "Integer: 0"}, "cluster|replicas": {reply: "Array of lines"}, "cluster|slaves": {reply: "Array of lines"}, "cluster|saveconfig": {reply: "`OK`"},
	"cluster|failover": {reply: "`OK` when this node is the primary", errors: "`ERR` if the node is not in sync", differs: "`FORCE-UNCLEAN` promotes a node that is not in sync: acknowledged changes may be lost"},
	"cluster|addslots": {reply: "none", errors: notHere}, "cluster|addslotsrange": {reply: "none", errors: notHere}, "cluster|bumpepoch": {reply: "none", errors: notHere}, "cluster|delslots": {reply: "none", errors: notHere},
	"cluster|delslotsrange": {reply: "none", errors: notHere}, "cluster|flushslots": {reply: "none", errors: notHere}, "cluster|forget": {reply: "none", errors: notHere}, "cluster|meet": {reply: "none", errors: notHere},
	"cluster|replicate": {reply: "none", errors: notHere}, "cluster|reset": {reply: "none", errors: notHere}, "cluster|set-config-epoch": {reply: "none", errors: notHere}, "cluster|setslot": {reply: "none", errors: notHere},
	"counter.move|open": {reply: "Internal"}, "counter.move|producers": {reply: "Internal"}, "counter.move|rows": {reply: "Internal"}, "counter.move|log": {reply: "Internal"}, "counter.move|hold": {reply: "Internal"},
	"counter.move|progress": {reply: "String with one line per move"},
	"readonly":              {reply: "`OK`"}, "readwrite": {reply: "`OK`"}, "asking": {reply: "`OK`"},
}
