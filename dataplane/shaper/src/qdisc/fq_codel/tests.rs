//! Model-based tests.
