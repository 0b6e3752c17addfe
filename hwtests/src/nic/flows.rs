//! Who had the wire: bytes of each TCP or UDP flow over IPv4, by its source port, in slices of [`SLICE`].

use std::collections::BTreeMap;

use shaper::time::{Duration, Instant};

/// The record of a wire by flow from some time on.
#[derive(Clone, Debug, Default)]
pub struct Flows {
    since: Instant,
    slices: BTreeMap<u16, Vec<u64>>,
}

impl Flows {
    /// An empty record from `since` on.
    pub(super) fn new(since: Instant) -> Self {
        Self { since, slices: BTreeMap::new() }
    }

    /// A frame whose last bit left at `left` and that took `bytes` on the wire.
    pub(super) fn record(&mut self, left: Instant, frame: &[u8], bytes: u32) {
        let Some(port) = source_port(frame).filter(|_| left >= self.since) else { return };
        let slice = (left.since(self.since).as_nanos() / SLICE.as_nanos()) as usize;
        let slices = self.slices.entry(port).or_default();
        if slices.len() <= slice {
            slices.resize(slice + 1, 0);
        }
        slices[slice] += u64::from(bytes);
    }

    /// Bytes of each flow, slice by slice.
    pub fn slices(&self) -> &BTreeMap<u16, Vec<u64>> {
        &self.slices
    }
}

/// Of a first or only fragment without VLAN tags.
fn source_port(frame: &[u8]) -> Option<u16> {
    let network = frame.get(14..).filter(|_| frame[12..14] == [8, 0])?;
    let header = usize::from(network.first()? & 0xf) * 4;
    let transport = network.get(header..header + 2).filter(|_| matches!(network[9], 6 | 17))?;
    Some(u16::from_be_bytes([transport[0], transport[1]]))
}

/// Ten to a second.
pub const SLICE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_to_their_flow_and_slice() {
        let mut frame = vec![0; 60];
        frame[12] = 8;
        (frame[14], frame[23]) = (0x45, 6);
        frame[34..36].copy_from_slice(&5201_u16.to_be_bytes());
        let at = |millis: u64| Instant::ZERO + Duration::from_millis(millis);
        let mut flows = Flows::new(at(1_000));
        for (millis, bytes) in [(999, 7), (1_000, 84), (1_099, 84), (1_250, 84)] {
            flows.record(at(millis), &frame, bytes);
        }
        flows.record(at(1_000), &[0; 60], 84);
        assert_eq!(flows.slices(), &BTreeMap::from([(5201, vec![168, 0, 84])]));
    }
}
