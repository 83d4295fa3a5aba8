package command

import "strings"

// instead says, for commands of Redis that are not here, the reason and an alternative. The text stands in brackets
// after the error of an unknown command, which clients recognize.
var instead = func() map[string]string {
	const expire = "counters do not expire: "
	const whole = "values are whole numbers: "
	all := make(map[string]string)
	for names, text := range map[string]string{
		"setex psetex": expire + "SET sets one",
		"getex":        expire + "GET reads one, GETDEL reads and resets one",
		"hexpire hpexpire hexpireat hpexpireat httl hpttl hpersist hexpiretime hpexpiretime hgetex hsetex": expire + "HSET sets, HGET reads one",
		"append setrange setbit bitop bitfield":              whole + "SET sets one, INCRBY adds to one",
		"getrange substr getbit bitcount bitpos bitfield_ro": whole + "GET reads one",
		"incrbyfloat":          whole + "INCRBY, of hundredths for instance",
		"hincrbyfloat":         whole + "HINCRBY, of hundredths for instance",
		"hrandfield":           "HGETALL reads all columns",
		"hgetdel":              "COUNTER.DRAIN reads and resets several numbers",
		"msetnx":               "SETNX for one post, or SET with NX in MULTI",
		"lcs":                  whole + "MGET reads two",
		"sort sort_ro":         "COUNTER.TOP lists the posts with the largest values, COUNTER.FIND those that meet conditions",
		"rename renamenx":      "a key names a post: read it with GETDEL and write the other with SET",
		"copy":                 "a key names a post: read it with HGETALL and write the other with HSET",
		"dump restore migrate": "REPLICAOF copies a server, counterctl export and import write and read posts",
		"move swapdb":          "there is one database",
		"eval eval_ro evalsha evalsha_ro fcall fcall_ro script": "there are no scripts: INCREX adds within bounds, MULTI and COUNTER.UPDATE change several, IDMP makes a retry count once; " +
			"keep locks and limits that expire in a Redis",
		"zadd zincrby zrange zrangestore zrevrange zrangebyscore zrevrangebyscore zrangebylex zrevrangebylex zrank zrevrank zscore zmscore zcard zcount zlexcount zrem " +
			"zremrangebyrank zremrangebyscore zremrangebylex zpopmin zpopmax bzpopmin bzpopmax zmpop bzmpop zscan zunion zunionstore zinter zinterstore zintercard zdiff " +
			"zdiffstore zrandmember": "there are no sorted sets: INCRBY counts and COUNTER.TOP lists the posts with the largest values",
		"lpush rpush lpushx rpushx lpop rpop lrange llen lindex lset linsert lrem ltrim lpos lmove rpoplpush blmove brpoplpush blpop brpop lmpop blmpop": "there are no lists: counters only, keep lists in a Redis",
		"sadd srem smembers sismember smismember scard spop srandmember smove sscan sunion sunionstore sinter sinterstore sintercard sdiff sdiffstore":   "there are no sets: counters only, keep sets in a Redis",
		"xadd xlen xrange xrevrange xread xreadgroup xgroup xack xpending xclaim xautoclaim xdel xtrim xinfo xsetid":                                     "there are no streams: counters only, keep streams in a Redis",
		"pfadd pfcount pfmerge pfdebug pfselftest": "there are no HyperLogLogs: counters only, keep them in a Redis",
		"geoadd geopos geodist geohash georadius georadiusbymember geosearch geosearchstore georadius_ro georadiusbymember_ro": "there is no geographic data: counters only, keep them in a Redis",
		"hotkeys": "COUNTER.HOT lists the posts that are read and written most",
	} {
		for name := range strings.FieldsSeq(names) {
			all[name] = text
		}
	}
	return all
}()

// Instead is the alternative to a command of Redis that is not here; empty where there is nothing to say. The name may
// be in any case.
func Instead(name []byte) string {
	if len(name) > 32 {
		return ""
	}
	return instead[strings.ToLower(string(name))]
}
