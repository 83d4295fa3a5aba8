package acl

import "strings"

// Commands of Redis that counterd has not. A list of users that comes from a Redis names them, with + and with -: that
// changes nothing, as they are not here, and stays in the rules. A name that Redis does not have either is refused, as
// it may be a misspelt name of a command to forbid.

const foreignCommands = `
	append bitcount bitfield bitfield_ro bitop bitpos blmove blmpop blpop brpop brpoplpush bzmpop bzpopmax bzpopmin copy
	debug dump eval eval_ro evalsha evalsha_ro fcall fcall_ro geoadd geodist geohash geopos georadius georadius_ro
	georadiusbymember georadiusbymember_ro geosearch geosearchstore getbit getex getrange hexpire hexpireat hexpiretime
	hincrbyfloat hpersist hpexpire hpexpireat hpexpiretime hpttl hrandfield httl incrbyfloat keys lcs lindex linsert
	llen lmove lmpop lolwut lpop lpos lpush lpushx lrange lrem lset ltrim migrate move msetnx pfadd pfcount
	pfdebug pfmerge pfselftest psetex randomkey rename renamenx restore restore-asking rpop rpoplpush rpush rpushx sadd
	scard script sdiff sdiffstore setbit setex setrange sflush sinter sintercard sinterstore sismember smembers
	smismember smove sort sort_ro spop srandmember srem sscan substr sunion sunionstore
	swapdb xack xadd xautoclaim xclaim xdel xgroup xinfo xlen xpending xrange xread xreadgroup xrevrange xsetid xtrim
	zadd zcard zcount zdiff zdiffstore zincrby zinter zintercard zinterstore zlexcount zmpop zmscore zpopmax zpopmin
	zrandmember zrange zrangebylex zrangebyscore zrangestore zrank zrem zremrangebylex zremrangebyrank zremrangebyscore
	zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan zscore zunion zunionstore`

// foreignSubs are subcommands of all containers of Redis, behind the name of each.
const foreignSubs = `
	acl: cat deluser dryrun genpass getuser help list load log save setuser users whoami
	client: caching getname getredir help id info kill list maint_notifications no-evict no-touch pause reply setinfo
		setname tracking trackinginfo unblock unpause
	cluster: addslots addslotsrange bumpepoch count-failure-reports countkeysinslot delslots delslotsrange failover
		flushslots forget getkeysinslot help info keyslot links meet myid myshardid nodes replicas replicate reset
		saveconfig set-config-epoch setslot shards slaves slots
	command: count docs getkeys getkeysandflags help info list
	config: get help resetstat rewrite set
	function: delete dump flush help kill list load restore stats
	latency: doctor graph help histogram history latest reset
	memory: doctor help malloc-stats purge stats usage
	module: help list load loadex unload
	object: encoding freq help idletime refcount
	pubsub: channels help numpat numsub shardchannels shardnumsub
	script: debug exists flush help kill load
	slowlog: get help len reset
	xgroup: create createconsumer delconsumer destroy help setid
	xinfo: consumers groups help stream`

var foreign = foreignNames()

func foreignNames() map[string]bool {
	names := make(map[string]bool)
	for name := range strings.FieldsSeq(foreignCommands) {
		names[name] = true
	}
	container := ""
	for name := range strings.FieldsSeq(foreignSubs) {
		if of, begins := strings.CutSuffix(name, ":"); begins {
			container = of
			names[of] = true
			continue
		}
		names[container+"|"+name] = true
	}
	return names
}

// Foreign tells whether a command, or a subcommand as "script|kill", is one of Redis that may not be here.
func Foreign(name string) bool { return isForeign(strings.ToLower(name)) }

// isForeign is Foreign for a name in lower case.
func isForeign(name string) bool { return foreign[name] }
