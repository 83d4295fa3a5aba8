// Package route is what clients of a cluster are told: which node has a key, and what the cluster is, in the words and
// forms of Redis Cluster (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/), so that their
// libraries need not know that it is another one. It is pure: it reads a topology.Map, and appends to replies.
//
// # Keys
//
// A client hashes a key as it stands, or what is in its braces, and goes to the node that has this slot. The posts are
// kept by the slot of their mid alone. Both are the same where what is hashed is the mid in decimal:
//
//	19089006004   {19089006004}   {19089006004}.cntcm   weibo:{19089006004}.cntcm    plain: what is hashed is the mid
//	19089006004.cntcm   weibo:19089006004   {weibo:19089006004}   0019089006004      refused, with how to write it
//
// So no key leads a client around in circles, and which are taken does not depend on who owns what. Keys that name no
// post have the slot that clients compute, as any key in Redis.
//
// # Files
//
//	key.go                       keys as clients hash them
//	view.go                      the cluster as one connection is told of it: addresses, redirections
//	slots.go shards.go nodes.go  CLUSTER SLOTS, SHARDS, NODES and REPLICAS
//	info.go                      CLUSTER INFO
package route
