package rdb

// Opcodes stand where a type may.
const (
	opSlotImport = 243 // Valkey; Redis uses it for modules' data of a key
	opSlotInfo   = 244
	opFunction   = 245
	opModuleAux  = 247
	opIdle       = 248
	opFrequency  = 249
	opAux        = 250
	opResizeDB   = 251
	opExpireMS   = 252
	opExpire     = 253
	opSelectDB   = 254
	opEnd        = 255
)

// Types of values. From 22 on Redis and Valkey mean different things.
const (
	typeString             = 0
	typeList               = 1
	typeSet                = 2
	typeZset               = 3
	typeHash               = 4
	typeZset2              = 5
	typeModule             = 6
	typeModule2            = 7
	typeHashZipmap         = 9
	typeListZiplist        = 10
	typeSetIntset          = 11
	typeZsetZiplist        = 12
	typeHashZiplist        = 13
	typeListQuicklist      = 14
	typeStream             = 15
	typeHashListpack       = 16
	typeZsetListpack       = 17
	typeListQuicklist2     = 18
	typeStream2            = 19
	typeSetListpack        = 20
	typeStream3            = 21
	typeHashTTL            = 22 // Redis 7.4 before its release; Valkey 9: in another form
	typeHashListpackTTL    = 23 // Redis 7.4 before its release
	typeHashMinTTL         = 24 // Redis 7.4
	typeHashListpackMinTTL = 25 // Redis 7.4
)
