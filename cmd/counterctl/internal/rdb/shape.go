package rdb

// Shape is the kind of a value.
type Shape uint8

// The shapes that a Handler may want.
const (
	Other  Shape = iota // lists, sets, streams, values of modules: never given
	String              // given by Value
	Hash                // given by Pair: field and value
	Zset                // given by Pair: member and score
)

func (s Shape) String() string {
	return [...]string{"another type", "a string", "a hash", "a sorted set"}[s]
}

// shapeOf tells the shape of a type.
func shapeOf(kind byte) Shape {
	switch kind {
	case typeString:
		return String
	case typeHash, typeHashZipmap, typeHashZiplist, typeHashListpack, typeHashTTL, typeHashListpackTTL, typeHashMinTTL, typeHashListpackMinTTL:
		return Hash
	case typeZset, typeZset2, typeZsetZiplist, typeZsetListpack:
		return Zset
	}
	return Other
}
