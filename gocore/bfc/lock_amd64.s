//go:build !race

#include "textflag.h"

// func storeZero(state *atomic.Uint32)
TEXT ·storeZero(SB), NOSPLIT, $0-8
	MOVQ state+0(FP), AX
	MOVL $0, (AX)
	RET

// func pause()
TEXT ·pause(SB), NOSPLIT, $0-0
	PAUSE
	RET
