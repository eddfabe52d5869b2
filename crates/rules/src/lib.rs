//! Weft.
