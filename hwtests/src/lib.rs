//! Rigs, traffic, scenarios, benchmarks and the demo
