#include "textflag.h"

// func combine3(matrices *uint64, in *[]byte, inputs int, a, b, c *byte, size int)
//
// Z0 to Z5 are the sums: two vectors for each output.
TEXT ·combine3(SB), NOSPLIT, $0-56
	MOVQ a+24(FP), DI
	MOVQ b+32(FP), SI
	MOVQ c+40(FP), DX
	MOVQ size+48(FP), CX
	XORQ R10, R10

columns:
	CMPQ   R10, CX
	JGE    done
	MOVQ   matrices+0(FP), R8
	MOVQ   in+8(FP), R9
	MOVQ   inputs+16(FP), R11
	VPXORQ Z0, Z0, Z0
	VPXORQ Z1, Z1, Z1
	VPXORQ Z2, Z2, Z2
	VPXORQ Z3, Z3, Z3
	VPXORQ Z4, Z4, Z4
	VPXORQ Z5, Z5, Z5

terms:
	MOVQ           (R9), R12
	VMOVDQU64      (R12)(R10*1), Z6
	VMOVDQU64      64(R12)(R10*1), Z7
	VPBROADCASTQ   (R8), Z8
	VPBROADCASTQ   8(R8), Z9
	VPBROADCASTQ   16(R8), Z10
	VGF2P8AFFINEQB $0, Z8, Z6, Z11
	VGF2P8AFFINEQB $0, Z8, Z7, Z12
	VGF2P8AFFINEQB $0, Z9, Z6, Z13
	VGF2P8AFFINEQB $0, Z9, Z7, Z14
	VGF2P8AFFINEQB $0, Z10, Z6, Z15
	VGF2P8AFFINEQB $0, Z10, Z7, Z16
	VPXORQ         Z11, Z0, Z0
	VPXORQ         Z12, Z1, Z1
	VPXORQ         Z13, Z2, Z2
	VPXORQ         Z14, Z3, Z3
	VPXORQ         Z15, Z4, Z4
	VPXORQ         Z16, Z5, Z5
	ADDQ           $24, R8
	ADDQ           $24, R9
	DECQ           R11
	JNZ            terms

	VMOVDQU64 Z0, (DI)(R10*1)
	VMOVDQU64 Z1, 64(DI)(R10*1)
	VMOVDQU64 Z2, (SI)(R10*1)
	VMOVDQU64 Z3, 64(SI)(R10*1)
	VMOVDQU64 Z4, (DX)(R10*1)
	VMOVDQU64 Z5, 64(DX)(R10*1)
	ADDQ      $128, R10
	JMP       columns

done:
	VZEROUPPER
	RET
