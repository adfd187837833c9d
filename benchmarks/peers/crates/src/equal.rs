//! The league of equal interface: a mutex, blocks freed by address, and the live bytes and their peak.

use crate::cores::Core;
use crate::replay::{Allocator, Counters};
use crate::table::Table;
use std::sync::Mutex;

/// Added to each address, because a core's may be 0.
const BASE: u64 = 1 << 47;

pub struct Equal<C: Core>(Mutex<State<C>>);

struct State<C: Core> {
    core: C,
    blocks: Table<(C::Handle, u64)>,
    current: u64,
    peak: u64,
}

impl<C: Core> Allocator for Equal<C> {
    type Slot = u64;

    fn new(bytes: u64, blocks: u64) -> Self {
        Equal(Mutex::new(State { core: C::new(bytes, blocks), blocks: Table::new(), current: 0, peak: 0 }))
    }

    fn allocate(&mut self, bytes: u64) -> Option<u64> {
        let state = &mut *Self::lock(&self.0);
        let handle = state.core.allocate(bytes)?;
        let slot = C::address(&handle) + BASE;
        state.blocks.insert(slot, (handle, bytes));
        state.current += bytes;
        state.peak = state.peak.max(state.current);
        Some(slot)
    }

    fn free(&mut self, slot: u64) {
        let state = &mut *Self::lock(&self.0);
        let (handle, bytes) = state.blocks.take(slot);
        state.current -= bytes;
        state.core.free(handle);
    }

    fn address(slot: &u64) -> u64 {
        slot - BASE
    }

    fn count(&self) -> Counters {
        let state = Self::lock(&self.0);
        Counters { current: state.current, peak: state.peak, ..Counters::default() }
    }
}

impl<C: Core> Equal<C> {
    /// The lock, through a shared reference: with `&mut` Rust would elide it.
    fn lock(state: &Mutex<State<C>>) -> std::sync::MutexGuard<'_, State<C>> {
        state.lock().unwrap()
    }
}
