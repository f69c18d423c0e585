//! execl(), execle() and execlp(): functions whose words are arguments, as many as there are.
//!
//! Always true: the words are where the caller put them. Those that came in registers are laid before those on the stack, in the
//! place that the return address had meanwhile left, so that all of them are the array that execve() wants, however many.

use crate::{exec, real};
use core::ffi::{c_char, c_int};

/// What to do with a path and an array of words, behind whose null pointer an environment may be.
type Start = unsafe extern "C" fn(*const c_char, *const *const c_char) -> c_int;

unsafe extern "C" fn start(path: *const c_char, words: *const *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { exec::with_library(exec::environment(), false, |all| real::execve(path, words, all)) }
}

unsafe extern "C" fn start_found(file: *const c_char, words: *const *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { exec::with_library(exec::environment(), false, |all| real::execvpe(file, words, all)) }
}

unsafe extern "C" fn start_with(path: *const c_char, words: *const *const c_char) -> c_int {
    let mut end = words;
    // SAFETY: the caller's promise: a null pointer ends the words, and the environment is the argument behind it.
    unsafe {
        while !(*end).is_null() {
            end = end.add(1);
        }
        let environment: *const *const c_char = (*end.add(1)).cast();
        exec::with_library(environment, false, |all| real::execve(path, words, all))
    }
}

/// Defines exported functions that take a path and any number of pointers.
macro_rules! listed {
    ($($name:ident: $start:ident;)*) => {
        $(
            /// As its manual page says; a program that is given a listener gets the library as well.
            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[unsafe(naked)]
            pub unsafe extern "C" fn $name() -> c_int {
                #[cfg(target_arch = "x86_64")]
                core::arch::naked_asm!(
                    "pop rax",
                    "push r9",
                    "push r8",
                    "push rcx",
                    "push rdx",
                    "push rsi",
                    "mov rsi, rsp",
                    // The stack is aligned with this.
                    "push rax",
                    "call {start}",
                    "pop rcx",
                    "add rsp, 40",
                    "push rcx",
                    "ret",
                    start = sym $start,
                );
                #[cfg(target_arch = "aarch64")]
                core::arch::naked_asm!(
                    "sub sp, sp, #80",
                    "stp x29, x30, [sp]",
                    "mov x29, sp",
                    "str x1, [sp, #24]",
                    "stp x2, x3, [sp, #32]",
                    "stp x4, x5, [sp, #48]",
                    "stp x6, x7, [sp, #64]",
                    "add x1, sp, #24",
                    "bl {start}",
                    "ldp x29, x30, [sp]",
                    "add sp, sp, #80",
                    "ret",
                    start = sym $start,
                );
            }
        )*
        /// They have the signature that the assembly calls.
        const _: [Start; 3] = [$($start),*];
    };
}

listed! {
    execl: start;
    execlp: start_found;
    execle: start_with;
}
