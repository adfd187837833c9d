// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package cabi

// #include "abi.h"
import "C"

import "gpuconf/gocore/base/holder"

// Take and GiveBack for C. They return the marked text of an error, which the caller frees, or NULL.

//export gcgo_take
func gcgo_take(number, nbytes C.int64_t, by C.uint16_t, scope C.int64_t, out *C.struct_gcgo_taken) *C.char {
	buffer, err := Take(int64(number), int64(nbytes), holder.ID(by), func() int64 { return scopeOf(int64(scope)) })
	*out = C.struct_gcgo_taken{
		address: C.uint64_t(buffer.Address), id: C.uint64_t(buffer.ID), gpu: C.int32_t(buffer.GPU),
		noticed: C.bool(buffer.Noticed),
	}
	return textOf(err)
}

//export gcgo_try_give_back
func gcgo_try_give_back(address, id C.uint64_t, tried *C.bool) *C.char {
	done, err := TryGiveBack(uint64(address), uint64(id))
	*tried = C.bool(done || err != nil) // also where a panic prevented it
	return textOf(err)
}

//export gcgo_give_back
func gcgo_give_back(address, id C.uint64_t) *C.char {
	return textOf(GiveBack(uint64(address), uint64(id)))
}

func textOf(err error) *C.char {
	if err == nil {
		return nil
	}
	return C.CString(err.Error())
}
