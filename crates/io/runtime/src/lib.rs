//! Drives Pinnace engines over links
