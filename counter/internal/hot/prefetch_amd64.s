#include "textflag.h"

// func prefetch(first, last unsafe.Pointer)
TEXT ·prefetch(SB), NOSPLIT, $0-16
	MOVQ first+0(FP), AX
	MOVQ last+8(FP), BX
	PREFETCHT0 (AX)
	PREFETCHT0 (BX)
	RET

// func prefetchAt(address uintptr)
TEXT ·prefetchAt(SB), NOSPLIT, $0-8
	MOVQ address+0(FP), AX
	PREFETCHT0 (AX)
	RET

// func prefetchHeader(first, second, written unsafe.Pointer)
TEXT ·prefetchHeader(SB), NOSPLIT, $0-24
	MOVQ first+0(FP), AX
	MOVQ second+8(FP), BX
	MOVQ written+16(FP), CX
	PREFETCHT0 (AX)
	PREFETCHT0 (BX)
	BYTE $0x0f; BYTE $0x0d; BYTE $0x09 // PREFETCHW (CX), which the assembler does not know
	RET
