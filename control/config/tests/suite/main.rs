//! What files do to the configuration reader, and what it tells about them.

mod common;
mod files;
mod messages;
