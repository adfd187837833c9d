//! The contenders that are crates, with the functions of `../cpp/peer.h`. The loops and the wrapper of equal interface correspond
//! to those of `../cpp/replay.h` for C++.

mod abi;
mod cores;
mod equal;
mod replay;
mod table;
