#include "textflag.h"

// func prefetch(first, last unsafe.Pointer)
TEXT ·prefetch(SB), NOSPLIT, $0-16
	MOVD first+0(FP), R0
	MOVD last+8(FP), R1
	PRFM (R0), PLDL1KEEP
	PRFM (R1), PLDL1KEEP
	RET

// func prefetchHeader(first, second, written unsafe.Pointer)
TEXT ·prefetchHeader(SB), NOSPLIT, $0-24
	MOVD first+0(FP), R0
	MOVD second+8(FP), R1
	MOVD written+16(FP), R2
	PRFM (R0), PLDL1KEEP
	PRFM (R1), PLDL1KEEP
	PRFM (R2), PSTL1KEEP
	RET

// func peek(p unsafe.Pointer) (lanes0, lanes1 uint64, passed uint8)
TEXT ·peek(SB), NOSPLIT, $0-25
	MOVD p+0(FP), R0
	MOVD (R0), R1
	MOVD 8(R0), R2
	MOVBU 16(R0), R3
	MOVD R1, lanes0+8(FP)
	MOVD R2, lanes1+16(FP)
	MOVB R3, passed+24(FP)
	RET
