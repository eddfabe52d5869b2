//! The functions.
