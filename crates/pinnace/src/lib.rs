//! Messages between programs, in place, with their losses reported
