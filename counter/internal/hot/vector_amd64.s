#include "go_asm.h"
#include "textflag.h"

// Each of the eight items of a bucket has 64 bits of a register. The comments at the right say which formula of the package comment, or which
// function of geometry.go, a part computes. m and a number of buckets are below 2^21, so products of 32 bits do for them.

#define LANE  Z0
#define QUOT  Z1
#define COLS  Z2
#define TMP   Z3
#define TMP2  Z4
#define HASH  Z5
#define REM   Z6

#define CONSTANT(field, reg) VPBROADCASTQ field(SI), reg

// HASHED makes x the function hash of x, which is x^seed.
#define HASHED(x) \
	VPMULLQ Z21, x, x    \
	VPSRLQ  $32, x, TMP  \
	VPXORQ  TMP, x, x    \
	VPMULLQ Z22, x, x

// HIGH makes to the upper 64 bits of x * n, where n has 32 bits. x is lost.
#define HIGH(x, n, to) \
	VPMULUDQ n, x, TMP   \
	VPSRLQ   $32, x, x   \
	VPMULUDQ n, x, to    \
	VPSRLQ   $32, TMP, TMP \
	VPADDQ   TMP, to, to \
	VPSRLQ   $32, to, to

// ITEMS makes items those of the bucket at DI, and K1 the places that are used among those of AX. Z10 and Z11 have the index and the shift, K7 the bytes.
#define ITEMS(items) \
	VPMOVZXWQ  (DI), LANE                      \
	VMOVDQU8.Z const_headerBytes(DI), K7, items \
	KMOVB      AX, K1                          \
	VPTESTMQ   LANE, LANE, K1, K1              \
	VPERMW     items, Z10, items               \
	VPSRLVQ    Z11, items, items

// func pickBuckets(v *vectors, first unsafe.Pointer, bucket uint64, buckets int, masks *bucketMasks, words *uint64) (picked int, unfit uint64)
TEXT ·pickBuckets(SB), NOSPLIT, $0-64
	MOVQ v+0(FP), SI
	MOVQ first+8(FP), DI
	MOVQ bucket+16(FP), R8
	MOVQ buckets+24(FP), CX
	MOVQ masks+32(FP), R9
	MOVQ words+40(FP), R10
	MOVQ R10, R11
	XORL R12, R12
	MOVQ vectors_stride(SI), R13
	MOVQ vectors_bytes(SI), AX
	KMOVQ AX, K7
	VMOVDQU64 vectors_index(SI), Z10
	VMOVDQU64 vectors_shift(SI), Z11
	VMOVQ vectors_restBits(SI), X12
	VMOVQ vectors_twist(SI), X13
	VMOVQ vectors_low(SI), X14
	CONSTANT(vectors_columns, Z15)
	CONSTANT(vectors_rest, Z16)
	CONSTANT(vectors_seed, Z17)
	CONSTANT(vectors_twistSeed, Z18)
	CONSTANT(vectors_m, Z19)
	CONSTANT(vectors_inverse, Z20)
	CONSTANT(vectors_hashFirst, Z21)
	CONSTANT(vectors_hashSecond, Z22)
	CONSTANT(vectors_hashStep, Z23)
	CONSTANT(vectors_quotient, Z24)
	CONSTANT(vectors_more, Z25)
	CONSTANT(vectors_from, Z26)
	CONSTANT(vectors_span, Z27)
	CONSTANT(vectors_most, Z28)
	CONSTANT(vectors_ones, Z29)
	CONSTANT(vectors_above, Z30)
	CONSTANT(vectors_none, Z31)
	CONSTANT(vectors_probe, Z7)
	CONSTANT(vectors_one, Z8)
	VPSUBQ Z8, Z19, Z9 // m-1

loop:
	MOVBLZX (R9), AX
	TESTL   AX, AX
	JZ      empty
	PREFETCHT0 1024(DI)           // that far the processor does not look ahead by itself
	ITEMS(QUOT)
	VPSRLQ     X12, QUOT, COLS
	VPANDQ     Z15, COLS, COLS
	VPANDQ     Z16, QUOT, QUOT
	VPSLLQ     $const_quoBits, QUOT, QUOT
	VPSRLQ     $const_probeBits, LANE, TMP
	VPORQ      TMP, QUOT, QUOT
	VPANDQ     Z7, LANE, LANE
	VPSUBQ     Z8, LANE, LANE     // numbers of probes

	VPXORQ     Z17, QUOT, HASH
	HASHED(HASH)
	VPSRLQ     $29, HASH, TMP2    // step
	VPXORQ     TMP2, HASH, TMP2
	VPMULLQ    Z23, TMP2, TMP2
	HIGH(HASH, Z19, REM)          // offset
	HIGH(TMP2, Z9, HASH)
	VPADDQ     Z8, HASH, HASH
	VPMULUDQ   LANE, HASH, HASH
	VPADDQ     HASH, REM, REM     // back
	VPMULUDQ   Z20, REM, TMP
	VPSRLQ     $32, TMP, TMP      // REM/m, or one less
	VPMULUDQ   Z19, TMP, TMP
	VPSUBQ     TMP, REM, REM
	VPSUBQ     Z19, REM, TMP
	VPMINUQ    TMP, REM, REM
	VPBROADCASTQ R8, TMP
	VPSUBQ     REM, TMP, REM
	VPADDQ     Z19, REM, TMP
	VPMINUQ    TMP, REM, REM

	VPXORQ     Z18, REM, HASH     // twist
	HASHED(HASH)
	VPSRLQ     X13, HASH, HASH
	VPSUBQ     HASH, QUOT, QUOT
	VPANDQ     Z24, QUOT, QUOT
	VPMULLQ    Z19, QUOT, QUOT
	VPADDQ     REM, QUOT, QUOT
	VPADDQ     Z25, QUOT, QUOT    // keys

	VPSUBQ     Z26, QUOT, TMP
	VPCMPUQ    $1, Z27, TMP, K1, K1 // in the range
	VPCMPUQ    $6, Z28, QUOT, K1, K2
	KMOVB      K2, DX
	ORL        DX, R12
	VPSLLQ     X14, QUOT, QUOT
	VPORQ      COLS, QUOT, QUOT
	VPCOMPRESSQ.Z QUOT, K1, QUOT
	VMOVDQU64  QUOT, (R10)

	VPADDQ     Z29, COLS, TMP     // marks
	VPXORQ     COLS, TMP, TMP
	VPANDQ     Z30, TMP, TMP
	VPCMPUQ    $4, Z31, TMP, K1, K2
	KMOVB      K2, DX
	MOVB       DX, const_filterBuckets(R9)
	KMOVB      K1, AX
	MOVB       AX, (R9)
	POPCNTL    AX, AX
	LEAQ       (R10)(AX*8), R10
next:
	ADDQ R13, DI
	INCQ R8
	INCQ R9
	DECQ CX
	JNZ  loop

	SUBQ R11, R10
	SHRQ $3, R10
	MOVQ R10, picked+48(FP)
	MOVQ R12, unfit+56(FP)
	VZEROUPPER
	RET

empty:
	MOVB AX, const_filterBuckets(R9)
	JMP  next

// func unpackRows(u *unpackers, rows *uint64, words []uint64)
TEXT ·unpackRows(SB), NOSPLIT, $0-40
	MOVQ u+0(FP), SI
	MOVQ rows+8(FP), DI
	MOVQ words_base+16(FP), R8
	MOVQ words_len+24(FP), CX
	VMOVDQU64 unpackers_shift(SI), Z10
	VMOVDQU64 unpackers_mask(SI), Z11
	VMOVDQU64 unpackers_add(SI), Z12
	MOVQ unpackers_row(SI), AX
	KMOVB AX, K1
	MOVQ unpackers_values(SI), AX
	KMOVB AX, K2
	MOVQ unpackers_bytes(SI), R9
	MOVQ unpackers_aside(SI), R10
	MOVQ unpackers_flag(SI), R11
	LEAQ -1(R11), R12
	TESTQ CX, CX
	JZ   done

row:
	MOVQ (R8), AX
	VPBROADCASTQ AX, Z0
	VPSRLVQ   Z10, Z0, Z0
	VPANDQ    Z11, Z0, Z0
	VPADDQ    Z12, Z0, Z0
	TESTQ     R11, AX
	JNZ       aside
put:
	VMOVDQU64 Z0, K1, (DI)
	ADDQ R9, DI
	ADDQ $8, R8
	DECQ CX
	JNZ  row
done:
	VZEROUPPER
	RET

aside:
	ANDQ  R12, AX
	IMULQ R9, AX
	VMOVDQU64 (R10)(AX*1), K2, Z0
	JMP   put

// func filterVector(f *filterVectors, first unsafe.Pointer, buckets int, hits *uint8)
TEXT ·filterVector(SB), NOSPLIT, $0-32
	MOVQ f+0(FP), SI
	MOVQ first+8(FP), DI
	MOVQ buckets+16(FP), CX
	MOVQ hits+24(FP), R9
	MOVQ filterVectors_stride(SI), R13
	MOVQ filterVectors_bytes(SI), AX
	KMOVQ AX, K7
	VMOVDQU64 filterVectors_index(SI), Z10
	VMOVDQU64 filterVectors_shift(SI), Z11
	VPBROADCASTQ filterVectors_mask(SI), Z12
	VPBROADCASTQ filterVectors_lo(SI), Z13
	VPBROADCASTQ filterVectors_width(SI), Z14

filter:
	MOVBLZX (R9), AX
	TESTL   AX, AX
	JZ      filtered
	ITEMS(Z1)
	VPANDQ     Z12, Z1, Z1
	VPSUBQ     Z13, Z1, Z1
	VPCMPUQ    $2, Z14, Z1, K1, K1
	KMOVB      K1, AX
	MOVB       AX, (R9)
filtered:
	ADDQ R13, DI
	INCQ R9
	DECQ CX
	JNZ  filter
	VZEROUPPER
	RET
