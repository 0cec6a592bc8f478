package h1c

import (
	"math/bits"
	"sync"
)

// buffers holds idle buffers, by the power of two that is their size.
var buffers [bits.UintSize]sync.Pool

func takeBuffer(size int) *[]byte {
	class := bits.Len(uint(size - 1))
	if b, ok := buffers[class].Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, 1<<class)
	return &b
}

func giveBuffer(b *[]byte) {
	buffers[bits.Len(uint(len(*b)-1))].Put(b)
}
