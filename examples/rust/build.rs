// Links with the library of the gpuconf that `python` has, or the interpreter that PYTHON names.

use std::process::Command;

fn main() {
    let python = std::env::var("PYTHON").unwrap_or("python".into());
    let code = "import gpuconf; print(gpuconf.library_path())";
    let done = Command::new(&python).args(["-c", code]).output().expect("cannot run python");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    println!("cargo:rustc-link-arg={}", String::from_utf8_lossy(&done.stdout).trim());
    println!("cargo:rerun-if-env-changed=PYTHON");
}
