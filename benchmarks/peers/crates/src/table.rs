//! Blocks by address: open addressing, linear probing, at most half full. An address is never 0. `../cpp/replay.h` has the same.

use std::mem::MaybeUninit;

pub struct Table<V> {
    slots: Vec<(u64, MaybeUninit<V>)>,
    used: usize,
    shift: u32,
}

impl<V: Copy> Table<V> {
    pub fn new() -> Self {
        Table { slots: vec![(0, MaybeUninit::uninit()); 64], used: 0, shift: 64 - 6 }
    }

    pub fn insert(&mut self, key: u64, value: V) {
        self.used += 1;
        if 2 * self.used > self.slots.len() {
            self.grow();
        }
        self.place(key, MaybeUninit::new(value));
    }

    pub fn take(&mut self, key: u64) -> V {
        let mask = self.slots.len() - 1;
        let mut at = self.home(key);
        while self.slots[at].0 != key {
            at = (at + 1) & mask;
        }
        let found = unsafe { self.slots[at].1.assume_init() };
        self.used -= 1;
        let mut next = at;
        loop {
            // Entries pushed behind it move up.
            next = (next + 1) & mask;
            if self.slots[next].0 == 0 {
                break;
            }
            let home = self.home(self.slots[next].0);
            if (next.wrapping_sub(home) & mask) >= (next.wrapping_sub(at) & mask) {
                self.slots[at] = self.slots[next];
                at = next;
            }
        }
        self.slots[at].0 = 0;
        found
    }

    fn home(&self, key: u64) -> usize {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    fn place(&mut self, key: u64, value: MaybeUninit<V>) {
        let mask = self.slots.len() - 1;
        let mut at = self.home(key);
        while self.slots[at].0 != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = (key, value);
    }

    fn grow(&mut self) {
        let twice = vec![(0, MaybeUninit::uninit()); 2 * self.slots.len()];
        let old = std::mem::replace(&mut self.slots, twice);
        self.shift -= 1;
        for (key, value) in old {
            if key != 0 {
                self.place(key, value);
            }
        }
    }
}
