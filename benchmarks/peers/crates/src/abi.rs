//! The functions of `cpp/peer.h`.

use crate::cores::{Core, Offset, Tlsf, Vma};
use crate::equal::Equal;
use crate::replay::{Allocator, Bare, Counters, Op, Pool, PoolOf};
use std::ffi::{c_char, c_int, c_void, CStr};

struct Entry {
    name: &'static CStr,
    league: &'static CStr,
    open: fn(u64, u64) -> Box<dyn Pool>,
}

const fn bare<C: Core + 'static>(name: &'static CStr) -> Entry {
    Entry { name, league: c"bare", open: open::<Bare<C>> }
}

const fn equal<C: Core + 'static>(name: &'static CStr) -> Entry {
    Entry { name, league: c"equal", open: open::<Equal<C>> }
}

fn open<A: Allocator + 'static>(bytes: u64, blocks: u64) -> Box<dyn Pool> {
    Box::new(PoolOf::<A>::new(bytes, blocks))
}

static ENTRIES: [Entry; 6] = [
    bare::<Offset>(c"offset-allocator"),
    equal::<Offset>(c"offset-allocator"),
    bare::<Vma>(c"Vulkan Memory Allocator"),
    equal::<Vma>(c"Vulkan Memory Allocator"),
    bare::<Tlsf>(c"rlsf (TLSF)"),
    equal::<Tlsf>(c"rlsf (TLSF)"),
];

#[no_mangle]
pub extern "C" fn peer_name(which: c_int) -> *const c_char {
    ENTRIES.get(which as usize).map_or(std::ptr::null(), |entry| entry.name.as_ptr())
}

#[no_mangle]
pub extern "C" fn peer_league(which: c_int) -> *const c_char {
    ENTRIES[which as usize].league.as_ptr()
}

#[no_mangle]
pub extern "C" fn peer_open(which: c_int, bytes: u64, blocks: u64) -> *mut c_void {
    Box::into_raw(Box::new((ENTRIES[which as usize].open)(bytes, blocks))).cast()
}

/// # Safety
/// As documented in `cpp/peer.h`.
#[no_mangle]
pub unsafe extern "C" fn peer_run(pool: *mut c_void, ops: *const Op, count: u64, addrs: *mut u64, nanos: *mut u32) -> i64 {
    let pool = &mut *pool.cast::<Box<dyn Pool>>();
    let count = count as usize;
    let ops = std::slice::from_raw_parts(ops, count);
    if !nanos.is_null() {
        return pool.timed(ops, std::slice::from_raw_parts_mut(nanos, count));
    }
    if !addrs.is_null() {
        return pool.placed(ops, std::slice::from_raw_parts_mut(addrs, count));
    }
    pool.run(ops)
}

/// # Safety
/// As documented in `cpp/peer.h`.
#[no_mangle]
pub unsafe extern "C" fn peer_count(pool: *mut c_void, counters: *mut Counters) {
    *counters = (*pool.cast::<Box<dyn Pool>>()).count();
}

/// # Safety
/// As documented in `cpp/peer.h`.
#[no_mangle]
pub unsafe extern "C" fn peer_close(pool: *mut c_void) {
    drop(Box::from_raw(pool.cast::<Box<dyn Pool>>()));
}
