// A program without Python that allocates GPU memory within a limit, in Rust:
//
//     GPUCONF_LIMIT=1GiB cargo run
//
// or, without Cargo:
//
//     library=$(python -c 'import gpuconf; print(gpuconf.library_path())')
//     rustc limit.rs -C link-arg="$library"
//     GPUCONF_LIMIT=1GiB ./limit

use std::ffi::{c_char, c_int, c_void, CStr};

extern "C" {
    fn gpuconf_init() -> c_int;
    fn gpuconf_last_error() -> *const c_char;
    fn gpuconf_malloc(size: usize, device: c_int, stream: *mut c_void) -> *mut c_void;
    fn gpuconf_free(ptr: *mut c_void, size: usize, device: c_int, stream: *mut c_void);
}

/// Device memory, which returns to the pool when it is dropped.
struct Block(*mut c_void);

impl Block {
    fn new(size: usize) -> Result<Block, String> {
        let address = unsafe { gpuconf_malloc(size, 0, std::ptr::null_mut()) };
        if address.is_null() {
            return Err(last_error());
        }
        Ok(Block(address))
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        unsafe { gpuconf_free(self.0, 0, 0, std::ptr::null_mut()) }
    }
}

fn last_error() -> String {
    unsafe { CStr::from_ptr(gpuconf_last_error()) }.to_string_lossy().into_owned()
}

fn main() -> Result<(), String> {
    if unsafe { gpuconf_init() } == 0 {
        return Err(last_error());
    }
    let _weights = Block::new(600 << 20)?;
    println!("600 MiB of weights: allocated");
    match Block::new(600 << 20) {
        Ok(_) => println!("600 MiB more: allocated"),
        Err(_) => println!("600 MiB more: out of memory"),
    }
    Ok(())
}
