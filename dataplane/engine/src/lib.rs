//! The poll loop: receive, classify, queue, shape, transmit
