#include "textflag.h"

// func prefetch(first, last unsafe.Pointer)
TEXT ·prefetch(SB), NOSPLIT, $0-16
	MOVD first+0(FP), R0
	MOVD last+8(FP), R1
	PRFM (R0), PLDL1KEEP
	PRFM (R1), PLDL1KEEP
	RET

// func prefetchAt(address uintptr)
TEXT ·prefetchAt(SB), NOSPLIT, $0-8
	MOVD address+0(FP), R0
	PRFM (R0), PLDL1KEEP
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
