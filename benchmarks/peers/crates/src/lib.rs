//! The contenders that come as crates, behind the functions of `../cpp/peer.h`. The loops and the wrapper of equal interface are what
//! `../cpp/replay.h` is for those in C++.

mod abi;
mod cores;
mod equal;
mod replay;
mod table;
