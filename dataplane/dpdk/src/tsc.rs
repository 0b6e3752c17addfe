//! The time stamp counter: what it reads, how fast it runs, and whether it can be trusted.

use crate::eal::Eal;

/// The counter now. About 10 ns on a Zen 4 guest.
#[inline]
pub fn rdtsc() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: RDTSC exists on every x86-64 CPU and reads no memory.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: reads the CPU's timer.
    unsafe {
        dpdk_sys::shim_rdtsc()
    }
}

/// Ticks per second, as the EAL found when it started: from the CPU, or measured against the clock.
pub fn hz(_eal: &Eal) -> u64 {
    // SAFETY: reads a variable that rte_eal_init has set.
    unsafe { dpdk_sys::rte_get_tsc_hz() }
}

/// Whether the counter runs at one rate in all power states (CPUID 80000007H, EDX bit 8). Without
/// it, use `clock_gettime`.
pub fn is_invariant() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::__cpuid;
        __cpuid(CPUID_EXTENDED).eax >= CPUID_POWER && __cpuid(CPUID_POWER).edx & INVARIANT_TSC != 0
    }
    // The generic timer of other architectures runs at a fixed rate by definition.
    #[cfg(not(target_arch = "x86_64"))]
    {
        true
    }
}

#[cfg(target_arch = "x86_64")]
const CPUID_EXTENDED: u32 = 0x8000_0000;
#[cfg(target_arch = "x86_64")]
const CPUID_POWER: u32 = 0x8000_0007;
#[cfg(target_arch = "x86_64")]
const INVARIANT_TSC: u32 = 1 << 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_does_not_run_backwards() {
        let first = rdtsc();
        assert!(rdtsc() >= first);
    }
}
