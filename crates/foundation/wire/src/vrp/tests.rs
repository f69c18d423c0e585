//! Tests of the codec are written beside it.
