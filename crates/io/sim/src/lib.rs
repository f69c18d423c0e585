//! A virtual clock and emulated networks for Pinnace engines
