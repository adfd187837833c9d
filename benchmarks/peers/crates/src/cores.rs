//! The bare allocators.

use offset_allocator::{Allocation, Allocator};
use std::alloc::Layout;
use std::ptr::NonNull;
use vk_mem::{VirtualAllocation, VirtualAllocationCreateInfo, VirtualBlock, VirtualBlockCreateInfo};

/// Common to the contenders.
pub trait Core {
    type Handle: Copy;
    fn new(bytes: u64, blocks: u64) -> Self;
    fn allocate(&mut self, bytes: u64) -> Option<Self::Handle>;
    fn free(&mut self, handle: Self::Handle);
    fn address(handle: &Self::Handle) -> u64;
}

/// All sizes are multiples of 256 bytes.
const UNIT: u64 = 256;

/// `offset-allocator`, whose sizes are 32 bits: units of 256 bytes.
pub struct Offset(Allocator<u32>);

impl Core for Offset {
    type Handle = Allocation<u32>;

    /// It reserves room for all blocks at once. A free piece needs a record too, so there is room for twice as many.
    fn new(bytes: u64, blocks: u64) -> Self {
        Offset(Allocator::with_max_allocs((bytes / UNIT) as u32, 2 * blocks as u32 + 64))
    }

    fn allocate(&mut self, bytes: u64) -> Option<Allocation<u32>> {
        self.0.allocate(bytes.div_ceil(UNIT) as u32)
    }

    fn free(&mut self, handle: Allocation<u32>) {
        self.0.free(handle);
    }

    fn address(handle: &Allocation<u32>) -> u64 {
        handle.offset as u64 * UNIT
    }
}

/// `vk-mem`: the virtual block of the Vulkan Memory Allocator, which is C++.
pub struct Vma(VirtualBlock);

/// The crate's handle is a number that cannot be copied.
const _: () = assert!(std::mem::size_of::<VirtualAllocation>() == 8);

impl Core for Vma {
    type Handle = (u64, u64); // the crate's handle, and the offset

    fn new(bytes: u64, _blocks: u64) -> Self {
        Vma(VirtualBlock::new(VirtualBlockCreateInfo { size: bytes, ..Default::default() }).expect("a virtual block"))
    }

    fn allocate(&mut self, bytes: u64) -> Option<(u64, u64)> {
        let wanted = VirtualAllocationCreateInfo {
            size: bytes.next_multiple_of(UNIT),
            alignment: 0,
            user_data: 0,
            flags: vk_mem::VirtualAllocationCreateFlags::empty(),
        };
        let (allocation, offset) = unsafe { self.0.allocate(wanted) }.ok()?;
        Some((unsafe { std::mem::transmute::<VirtualAllocation, u64>(allocation) }, offset))
    }

    fn free(&mut self, (allocation, _): (u64, u64)) {
        let mut allocation = unsafe { std::mem::transmute::<u64, VirtualAllocation>(allocation) };
        unsafe { self.0.free(&mut allocation) };
    }

    fn address(&(_, offset): &(u64, u64)) -> u64 {
        offset
    }
}

/// The block must be empty before it is dropped.
impl Drop for Vma {
    fn drop(&mut self) {
        unsafe { self.0.clear() };
    }
}

/// `rlsf`: two-level segregated fit. It keeps its records in front of the blocks, so it needs real memory to manage. Its blocks are
/// aligned to 16 bytes: 256, as GPUs need it, would cost one more unit per block.
pub struct Tlsf {
    lists: rlsf::Tlsf<'static, u64, u32, 40, 32>,
    start: *mut u8,
    bytes: usize,
}

const TLSF_ALIGN: usize = 16;

impl Core for Tlsf {
    type Handle = (NonNull<u8>, u64); // the block, and its offset

    fn new(bytes: u64, _blocks: u64) -> Self {
        let bytes = bytes as usize;
        let mut lists = rlsf::Tlsf::new();
        let start = unsafe {
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let start = libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, kind, -1, 0);
            assert!(start != libc::MAP_FAILED, "no address space of {bytes} bytes");
            let start = start.cast::<u8>();
            lists.insert_free_block_ptr(NonNull::slice_from_raw_parts(NonNull::new(start).unwrap(), bytes));
            start
        };
        Tlsf { lists, start, bytes }
    }

    fn allocate(&mut self, bytes: u64) -> Option<(NonNull<u8>, u64)> {
        let layout = Layout::from_size_align(bytes.next_multiple_of(UNIT) as usize, TLSF_ALIGN).ok()?;
        let block = self.lists.allocate(layout)?;
        Some((block, block.as_ptr() as u64 - self.start as u64))
    }

    fn free(&mut self, (block, _): (NonNull<u8>, u64)) {
        unsafe { self.lists.deallocate(block, TLSF_ALIGN) };
    }

    fn address(&(_, offset): &(NonNull<u8>, u64)) -> u64 {
        offset
    }
}

impl Drop for Tlsf {
    fn drop(&mut self) {
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}
