//! Two conformances of the same code: `Linux` reproduces the recorded behaviour of the Linux 6.12
//! algorithms with every fault, `Weir` mends the faults.
