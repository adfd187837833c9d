// SPDX-License-Identifier: Apache-2.0
// The program of client.c in Rust, with nothing but its standard library and the C library's dlopen.
use std::ffi::{c_char, c_int, c_void, CStr};
use std::mem::transmute;
use std::ptr::null_mut;

extern "C" {
    fn dlopen(name: *const c_char, how: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

const NOW: c_int = 2;

fn open(name: &str) -> *mut c_void {
    let library = unsafe { dlopen(name.as_ptr() as *const c_char, NOW) };
    assert!(!library.is_null(), "no {}", name);
    library
}

fn find(library: *mut c_void, name: &str) -> *mut c_void {
    let function = unsafe { dlsym(library, name.as_ptr() as *const c_char) };
    assert!(!function.is_null(), "no {}", name);
    function
}

macro_rules! function {
    ($library:expr, $name:literal, $($argument:ty),*) => {
        transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> c_int>(find($library, concat!($name, "\0")))
    };
}

fn must(what: &str, result: c_int) {
    assert_eq!(result, 0, "{what}");
}

fn main() {
    let cuda = open("libcuda.so.1\0");
    let nvml = open("libnvidia-ml.so.1\0");
    let (mut count, mut listed) = (0 as c_int, 0u32);
    let mut name = [0 as c_char; 96];
    let (mut context, mut device): (*mut c_void, *mut c_void) = (null_mut(), null_mut());
    let (mut at, mut beyond) = (0u64, 0u64);
    let (mut available, mut total) = (0usize, 0usize);
    let (mut answer, mut memory) = ([0u8; 8], [0u64; 3]);
    unsafe {
        must("cuInit", function!(cuda, "cuInit", u32)(0));
        must("cuDeviceGetCount", function!(cuda, "cuDeviceGetCount", *mut c_int)(&mut count));
        must("cuDeviceGetName", function!(cuda, "cuDeviceGetName", *mut c_char, c_int, c_int)(name.as_mut_ptr(), 96, 0));
        must("retain", function!(cuda, "cuDevicePrimaryCtxRetain", *mut *mut c_void, c_int)(&mut context, 0));
        must("cuCtxSetCurrent", function!(cuda, "cuCtxSetCurrent", *mut c_void)(context));
        let allocate = function!(cuda, "cuMemAlloc_v2", *mut u64, usize);
        must("cuMemAlloc", allocate(&mut at, 1 << 30));
        let refused = allocate(&mut beyond, 40 << 30);
        must("cuMemGetInfo", function!(cuda, "cuMemGetInfo_v2", *mut usize, *mut usize)(&mut available, &mut total));
        must("to", function!(cuda, "cuMemcpyHtoD_v2", u64, *const u8, usize)(at, b"written\0".as_ptr(), 8));
        must("from", function!(cuda, "cuMemcpyDtoH_v2", *mut u8, u64, usize)(answer.as_mut_ptr(), at, 8));
        println!(
            "cuda: {count} x {}, {} MiB, {} MiB in use, {}, {refused}",
            CStr::from_ptr(name.as_ptr()).to_str().unwrap(),
            total >> 20,
            (total - available) >> 20,
            CStr::from_bytes_with_nul(&answer).unwrap().to_str().unwrap()
        );
        must("nvmlInit", function!(nvml, "nvmlInit_v2",)());
        must("count", function!(nvml, "nvmlDeviceGetCount_v2", *mut u32)(&mut listed));
        must("handle", function!(nvml, "nvmlDeviceGetHandleByIndex_v2", u32, *mut *mut c_void)(0, &mut device));
        must("name", function!(nvml, "nvmlDeviceGetName", *mut c_void, *mut c_char, u32)(device, name.as_mut_ptr(), 96));
        must("memory", function!(nvml, "nvmlDeviceGetMemoryInfo", *mut c_void, *mut u64)(device, memory.as_mut_ptr()));
        println!(
            "nvml: {listed} x {}, {} MiB, {} MiB in use",
            CStr::from_ptr(name.as_ptr()).to_str().unwrap(),
            memory[0] >> 20,
            memory[2] >> 20
        );
    }
}
