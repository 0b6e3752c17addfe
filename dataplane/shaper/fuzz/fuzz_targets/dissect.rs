//! Any bytes as a frame: nothing panics, offsets lie inside, both directions hash alike, and a mark
//! changes nothing but the DS field and the checksum over it.
//!
//! `cd dataplane/shaper && cargo +nightly fuzz run dissect`
#![no_main]

use libfuzzer_sys::fuzz_target;
use shaper::flow::dissect::{Dissected, dissect};
use shaper::flow::hash::FlowHasher;
use shaper::flow::key::{Family, FlowKey};
use shaper::wire::ecn::{self, Rewrite};

fuzz_target!(|bytes: &[u8]| {
    // The first byte says how much of the frame lies outside its head.
    let Some((&beyond, frame)) = bytes.split_first() else { return };
    let wire_len = frame.len() + usize::from(beyond);
    let before = dissect(frame, wire_len);
    offsets(frame, &before);
    symmetry(&before.key);
    mark(frame, wire_len, &before);
});

fn offsets(frame: &[u8], d: &Dissected) {
    assert!(usize::from(d.network_offset) <= frame.len());
    assert_eq!(d.ds.is_ip(), d.key.family != Family::Mac);
    if let Some(transport) = d.transport {
        assert!(d.ds.is_ip() && transport.offset >= d.network_offset + 20);
        assert!(usize::from(transport.offset) <= frame.len());
        assert!(matches!(transport.tcp_header_len, 0 | 20..=60));
    }
}

fn symmetry(key: &FlowKey) {
    let hasher = FlowHasher::new([3; 16]);
    let back = FlowKey {
        source: key.destination,
        destination: key.source,
        source_port: key.destination_port,
        destination_port: key.source_port,
        ..*key
    };
    let (source, destination) = hasher.hosts(key);
    assert_eq!(hasher.flow(key), hasher.flow(&back));
    assert_eq!(hasher.hosts(&back), (destination, source));
}

fn mark(frame: &[u8], wire_len: usize, before: &Dissected) {
    let mut marked = frame.to_vec();
    if ecn::mark(&mut marked, wire_len) != Rewrite::Done {
        assert_eq!(marked, frame);
        return;
    }
    let after = dissect(&marked, wire_len);
    assert_eq!(after.ds, before.ds.marked());
    assert_eq!(Dissected { ds: before.ds, ..after }, *before);
    let header = usize::from(before.network_offset);
    assert_eq!(marked[..header], frame[..header]);
    assert_eq!(marked[header + 12..], frame[header + 12..]);
}
