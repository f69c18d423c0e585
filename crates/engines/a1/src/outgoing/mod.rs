//! The sending half of a connection (specs/a1.md, 1.1 and 2).
