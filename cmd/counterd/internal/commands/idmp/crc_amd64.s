#include "textflag.h"

// func sum(state uint32, p *byte, n int) uint32
TEXT ·sum(SB), NOSPLIT, $0-28
	MOVL state+0(FP), AX
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), CX
	NOTL AX
words:
	CMPQ CX, $8
	JLT  rest
	CRC32Q (SI), AX
	ADDQ $8, SI
	SUBQ $8, CX
	JMP  words
rest:
	TESTQ $4, CX
	JZ   two
	CRC32L (SI), AX
	ADDQ $4, SI
two:
	TESTQ $2, CX
	JZ   one
	CRC32W (SI), AX
	ADDQ $2, SI
one:
	TESTQ $1, CX
	JZ   done
	CRC32B (SI), AX
done:
	NOTL AX
	MOVL AX, ret+24(FP)
	RET
