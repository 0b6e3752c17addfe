//! Views over the bytes of a frame.
