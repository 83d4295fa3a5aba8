#include "textflag.h"

DATA last<>+0x00(SB)/4, $15
GLOBL last<>(SB), RODATA|NOPTR, $4

// func sumVector(numbers *uint32, n int)
TEXT ·sumVector(SB), NOSPLIT, $0-16
	MOVQ numbers+0(FP), DI
	MOVQ n+8(FP), CX
	VPXORQ Z10, Z10, Z10
	VPXORQ Z1, Z1, Z1             // the sum so far
	VPBROADCASTD last<>(SB), Z11

sum:
	VMOVDQU32 (DI), Z0
	VALIGND $15, Z10, Z0, Z2      // each with the one before it, with the two before these, and so on
	VPADDD  Z2, Z0, Z0
	VALIGND $14, Z10, Z0, Z2
	VPADDD  Z2, Z0, Z0
	VALIGND $12, Z10, Z0, Z2
	VPADDD  Z2, Z0, Z0
	VALIGND $8, Z10, Z0, Z2
	VPADDD  Z2, Z0, Z0
	VPADDD  Z1, Z0, Z0
	VPERMD  Z0, Z11, Z1
	VMOVDQU32 Z0, (DI)
	ADDQ $64, DI
	SUBQ $16, CX
	JG   sum
	VZEROUPPER
	RET

// func exchangeVector(words *uint64, n int, low uint64)
TEXT ·exchangeVector(SB), NOSPLIT, $0-24
	MOVQ words+0(FP), DI
	MOVQ n+8(FP), CX
	VPBROADCASTQ low+16(FP), Z10
	MOVL $0x55, AX
	KMOVB AX, K1                  // the first of each two

exchange:
	VMOVDQU64 (DI), Z0
	VPSHUFD   $0x4e, Z0, Z1       // the other of each two
	VPORQ     Z10, Z1, Z2
	VPCMPUQ   $6, Z2, Z0, K1, K2
	KADDB     K2, K2, K3
	KORB      K2, K3, K2
	VMOVDQU64 Z1, K2, Z0
	VMOVDQU64 Z0, (DI)
	ADDQ $64, DI
	SUBQ $8, CX
	JG   exchange
	VZEROUPPER
	RET

// func disorderVector(words *uint64, n int, low uint64) (at int)
TEXT ·disorderVector(SB), NOSPLIT, $0-32
	MOVQ words+0(FP), SI
	MOVQ n+8(FP), CX
	VPBROADCASTQ low+16(FP), Z10
	XORL AX, AX

search:
	VPORQ   8(SI)(AX*8), Z10, Z0
	VMOVDQU64 (SI)(AX*8), Z1
	VPCMPUQ $6, Z0, Z1, K1
	KTESTB  K1, K1
	JNZ     found
	ADDQ $8, AX
	CMPQ AX, CX
	JL   search
	JMP  done
found:
	KMOVB K1, DX
	BSFL  DX, DX
	ADDQ  DX, AX
done:
	MOVQ AX, at+24(FP)
	VZEROUPPER
	RET
