package feed

import (
	"encoding/json"
	"strconv"
)

// The line of a change (docs/reference/feed-json.md, and feed.schema.json beside it):
//
//	{"position":"1-...","shard":2,"time":1700000000000,"parts":[
//	  {"kind":"set","counter":"weibo","mid":"102","values":{"comment":5}},
//	  {"kind":"del","counter":"weibo","mid":"102"}, {"kind":"flush"}, {"kind":"schema","schema":"..."},
//	  {"kind":"drop","counter":"weibo","from":"0","to":"102"},
//	  {"kind":"gain","move":"...","groups":"...","shard":1,"offset":5}, {"kind":"lose","move":"...","groups":"..."}],
//	  "producer":"app-1","seq":"42"}
//
// With old values, set and del have "old":{"comment":4} behind the rest if the log tells them, which is {} if the post was not there.
//
// With merged changes and old values, a line ends with "more":true if its change belongs together with that of the next line: sinks.LineMore.
//
// All behind the position and the shard is written from the bytes of the reply, in one pass. The position comes first: that is how a line
// is known. It is known last, as that of a cluster has the places of all shards. shard is there in a cluster only.
//
// A mid is a string: JavaScript, jq and others round numbers above 2^53, and a rounded id is that of another post.

// appendLineStart appends the position, which stands between head and tail, and the shard, unless it is 0.
func appendLineStart(dst []byte, head, position, tail string, shard uint64) []byte {
	dst = append(dst, `{"position":`...)
	at := len(dst)
	dst = append(dst, '"')
	dst = append(append(append(dst, head...), position...), tail...)
	for _, c := range dst[at+1:] {
		if c < ' ' || c > '~' || c == '"' || c == '\\' { // of no server that this version knows
			quoted := appendString(nil, []byte(string(dst[at+1:])))
			return appendShard(append(dst[:at], quoted...), shard)
		}
	}
	return appendShard(append(dst, '"'), shard)
}

func appendShard(dst []byte, shard uint64) []byte {
	if shard == 0 {
		return dst
	}
	dst = append(dst, `,"shard":`...)
	return strconv.AppendUint(dst, shard, 10)
}

// appendTime appends the time, and begins the parts.
func appendTime(dst []byte, ms int64) []byte {
	dst = append(dst, `,"time":`...)
	dst = strconv.AppendInt(dst, ms, 10)
	return append(dst, `,"parts":[`...)
}

func appendLineEnd(dst []byte) []byte { return append(dst, "]}\n"...) }

// appendField appends a name and a string.
func appendField(dst []byte, name string, text []byte) []byte {
	dst = append(dst, `,"`...)
	dst = append(dst, name...)
	dst = append(dst, `":`...)
	return appendString(dst, text)
}

// appendMid appends the id of a post, as a string.
func appendMid(dst []byte, mid int64) []byte {
	dst = append(dst, `,"mid":"`...)
	dst = strconv.AppendUint(dst, uint64(mid), 10)
	return append(dst, '"')
}

// appendString appends a string of JSON.
func appendString(dst, text []byte) []byte {
	for _, c := range text {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(string(text)) // a string always can be
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, text...)
	return append(dst, '"')
}
