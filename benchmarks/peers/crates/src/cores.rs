//! The bare allocators.

use offset_allocator::{Allocation, Allocator};
use std::alloc::Layout;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use vk_mem::{VirtualAllocation, VirtualAllocationCreateInfo, VirtualBlock, VirtualBlockCreateInfo};

/// Common to the contenders.
pub trait Core {
    type Handle: Copy + Default;
    fn new(bytes: u64, blocks: u64) -> Self;
    fn allocate(&mut self, bytes: u64) -> Option<Self::Handle>;
    fn free(&mut self, handle: Self::Handle);
    fn address(handle: &Self::Handle) -> u64;
}

/// All sizes are multiples of 256 bytes.
const UNIT: u64 = 256;

/// `offset-allocator`, whose sizes are 32 bits: units of 256 bytes.
pub struct Offset(Allocator<u32>);

#[derive(Clone, Copy)]
pub struct OffsetHandle(MaybeUninit<Allocation<u32>>);

impl Default for OffsetHandle {
    fn default() -> Self {
        OffsetHandle(MaybeUninit::uninit())
    }
}

impl Core for Offset {
    type Handle = OffsetHandle;

    /// It reserves room for all blocks at once. A free piece needs a record too, so there is room for twice as many.
    fn new(bytes: u64, blocks: u64) -> Self {
        Offset(Allocator::with_max_allocs((bytes / UNIT) as u32, 2 * blocks as u32 + 64))
    }

    fn allocate(&mut self, bytes: u64) -> Option<OffsetHandle> {
        let found = self.0.allocate(bytes.div_ceil(UNIT) as u32)?;
        Some(OffsetHandle(MaybeUninit::new(found)))
    }

    fn free(&mut self, handle: OffsetHandle) {
        self.0.free(unsafe { handle.0.assume_init() });
    }

    fn address(handle: &OffsetHandle) -> u64 {
        unsafe { handle.0.assume_init_ref() }.offset as u64 * UNIT
    }
}

/// `vk-mem`: the virtual block of the Vulkan Memory Allocator, which is C++.
pub struct Vma(VirtualBlock);

#[derive(Clone, Copy)]
pub struct VmaHandle {
    allocation: MaybeUninit<u64>,
    offset: u64,
}

impl Default for VmaHandle {
    fn default() -> Self {
        VmaHandle { allocation: MaybeUninit::uninit(), offset: 0 }
    }
}

/// The crate's handle is a number that cannot be copied.
const _: () = assert!(std::mem::size_of::<VirtualAllocation>() == 8);

impl Core for Vma {
    type Handle = VmaHandle;

    fn new(bytes: u64, _blocks: u64) -> Self {
        Vma(VirtualBlock::new(VirtualBlockCreateInfo { size: bytes, ..Default::default() }).expect("a virtual block"))
    }

    fn allocate(&mut self, bytes: u64) -> Option<VmaHandle> {
        let wanted = VirtualAllocationCreateInfo {
            size: bytes.next_multiple_of(UNIT),
            alignment: 0,
            user_data: 0,
            flags: vk_mem::VirtualAllocationCreateFlags::empty(),
        };
        let (allocation, offset) = unsafe { self.0.allocate(wanted) }.ok()?;
        Some(VmaHandle { allocation: MaybeUninit::new(unsafe { std::mem::transmute::<VirtualAllocation, u64>(allocation) }), offset })
    }

    fn free(&mut self, handle: VmaHandle) {
        let mut allocation = unsafe { std::mem::transmute::<u64, VirtualAllocation>(handle.allocation.assume_init()) };
        unsafe { self.0.free(&mut allocation) };
    }

    fn address(handle: &VmaHandle) -> u64 {
        handle.offset
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

#[derive(Clone, Copy)]
pub struct TlsfHandle {
    block: *mut u8,
    offset: u64,
}

impl Default for TlsfHandle {
    fn default() -> Self {
        TlsfHandle { block: std::ptr::null_mut(), offset: 0 }
    }
}

const TLSF_ALIGN: usize = 16;

impl Core for Tlsf {
    type Handle = TlsfHandle;

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

    fn allocate(&mut self, bytes: u64) -> Option<TlsfHandle> {
        let layout = Layout::from_size_align(bytes.next_multiple_of(UNIT) as usize, TLSF_ALIGN).ok()?;
        let block = self.lists.allocate(layout)?.as_ptr();
        Some(TlsfHandle { block, offset: block as u64 - self.start as u64 })
    }

    fn free(&mut self, handle: TlsfHandle) {
        unsafe { self.lists.deallocate(NonNull::new(handle.block).unwrap(), TLSF_ALIGN) };
    }

    fn address(handle: &TlsfHandle) -> u64 {
        handle.offset
    }
}

impl Drop for Tlsf {
    fn drop(&mut self) {
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}
