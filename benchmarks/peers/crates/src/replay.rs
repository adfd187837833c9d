//! The loops over a trace.

use crate::cores::Core;
use std::mem::MaybeUninit;
use std::time::Instant;

/// An operation allocates a block or, with 0 bytes, frees it.
#[repr(C)]
pub struct Op {
    block: u32,
    bytes: u64,
}

/// A pool's own accounting.
#[repr(C)]
#[derive(Default)]
pub struct Counters {
    pub current: u64,
    pub peak: u64,
    pub reserved: u64,
    pub ours: u64,
}

/// An allocator of either league.
pub trait Allocator {
    type Slot: Copy;
    fn new(bytes: u64, blocks: u64) -> Self;
    fn allocate(&mut self, bytes: u64) -> Option<Self::Slot>;
    fn free(&mut self, slot: Self::Slot);
    fn address(slot: &Self::Slot) -> u64;
    fn count(&self) -> Counters;
}

/// The bare league: the caller keeps the handle, and nothing is counted.
pub struct Bare<C>(C);

impl<C: Core> Allocator for Bare<C> {
    type Slot = C::Handle;

    fn new(bytes: u64, blocks: u64) -> Self {
        Bare(C::new(bytes, blocks))
    }

    fn allocate(&mut self, bytes: u64) -> Option<Self::Slot> {
        self.0.allocate(bytes)
    }

    fn free(&mut self, slot: Self::Slot) {
        self.0.free(slot);
    }

    fn address(slot: &Self::Slot) -> u64 {
        C::address(slot)
    }

    fn count(&self) -> Counters {
        Counters::default()
    }
}

/// A pool with the functions of `cpp/peer.h`: each returns nanoseconds, or `-1 - i` if operation `i` found no memory.
pub trait Pool {
    fn run(&mut self, ops: &[Op]) -> i64;
    fn placed(&mut self, ops: &[Op], addrs: &mut [u64]) -> i64;
    fn timed(&mut self, ops: &[Op], nanos: &mut [u32]) -> i64;
    fn count(&self) -> Counters;
}

pub struct PoolOf<A: Allocator> {
    allocator: A,
    slots: Vec<MaybeUninit<A::Slot>>, // a trace frees only what it has allocated
}

impl<A: Allocator> PoolOf<A> {
    pub fn new(bytes: u64, blocks: u64) -> Self {
        PoolOf { allocator: A::new(bytes, blocks), slots: vec![MaybeUninit::uninit(); blocks as usize] }
    }

    /// `done` gets the number and the block of each operation, after it.
    #[inline(always)]
    fn replay(&mut self, ops: &[Op], mut done: impl FnMut(usize, &A::Slot)) -> i64 {
        let start = Instant::now();
        for (i, op) in ops.iter().enumerate() {
            let slot = &mut self.slots[op.block as usize];
            if op.bytes == 0 {
                self.allocator.free(unsafe { slot.assume_init() });
            } else {
                match self.allocator.allocate(op.bytes) {
                    Some(got) => *slot = MaybeUninit::new(got),
                    None => return -1 - i as i64,
                }
            }
            done(i, unsafe { slot.assume_init_ref() });
        }
        start.elapsed().as_nanos() as i64
    }
}

impl<A: Allocator> Pool for PoolOf<A> {
    fn run(&mut self, ops: &[Op]) -> i64 {
        self.replay(ops, |_, _| {})
    }

    fn placed(&mut self, ops: &[Op], addrs: &mut [u64]) -> i64 {
        self.replay(ops, |i, slot| addrs[i] = A::address(slot))
    }

    fn timed(&mut self, ops: &[Op], nanos: &mut [u32]) -> i64 {
        let mut before = Instant::now();
        self.replay(ops, |i, _| {
            let now = Instant::now();
            nanos[i] = (now - before).as_nanos() as u32;
            before = now;
        })
    }

    fn count(&self) -> Counters {
        Counters { ours: (self.slots.len() * std::mem::size_of::<A::Slot>()) as u64, ..self.allocator.count() }
    }
}
