//! Frames as they are on the wire, checksums of IPv4 headers included.

pub const ECT0: u8 = 2;
pub const CE: u8 = 3;

/// A UDP datagram of one flow in an Ethernet frame of `len` bytes; `seq` is its last four bytes.
pub fn udp(flow: u16, seq: u32, len: usize, ds: u8) -> Vec<u8> {
    ethernet(0x0800, &ip_udp(flow, seq, len - 14, ds))
}

/// The packet of [`udp`], `len` bytes from the IPv4 header on.
pub fn ip_udp(flow: u16, seq: u32, len: usize, ds: u8) -> Vec<u8> {
    let mut datagram = vec![0; len - 20];
    let udp_len = (len - 20) as u16;
    datagram[..2].copy_from_slice(&(1024 + flow).to_be_bytes());
    datagram[2..4].copy_from_slice(&5001u16.to_be_bytes());
    datagram[4..6].copy_from_slice(&udp_len.to_be_bytes());
    let at = datagram.len() - 4;
    datagram[at..].copy_from_slice(&seq.to_be_bytes());
    ipv4(17, ds, 64, 0, &datagram)
}

/// An IPv4 packet; `fragment` is the word of flags and offset.
pub fn ipv4(protocol: u8, ds: u8, ttl: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, ds];
    packet.extend((20 + payload.len() as u16).to_be_bytes());
    packet.extend([0x12, 0x34]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([ttl, protocol, 0, 0, 192, 0, 2, 1, 198, 51, 100, 7]);
    let checksum = !sum(&packet);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet.extend(payload);
    packet
}

/// An IPv6 packet.
pub fn ipv6(next_header: u8, ds: u8, hop_limit: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60 | ds >> 4, ds << 4, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next_header, hop_limit]);
    packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    packet.extend([0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    packet.extend(payload);
    packet
}

pub fn ethernet(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    to([2, 0, 0, 0, 0, 2], ethertype, payload)
}

/// A frame to a given MAC address.
pub fn to(mac: [u8; 6], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&mac[..], &[2, 0, 0, 0, 0, 1], &ethertype.to_be_bytes(), payload].concat()
}

/// What follows the EtherType of a tag: the tag, and the EtherType behind it.
pub fn vlan(id: u16, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&id.to_be_bytes()[..], &ethertype.to_be_bytes(), payload].concat()
}

/// What follows the EtherType of a PPPoE session that carries IPv4.
pub fn pppoe(session: u16, packet: &[u8]) -> Vec<u8> {
    let len = packet.len() as u16 + 2;
    [&[0x11, 0][..], &session.to_be_bytes(), &len.to_be_bytes(), &[0, 0x21], packet].concat()
}

/// What follows the EtherType of MPLS: a stack of `labels` labels.
pub fn mpls(labels: u32, packet: &[u8]) -> Vec<u8> {
    let label = |n: u32| (1000 + n) << 12 | u32::from(n == labels) << 8 | 64;
    let stack: Vec<u8> = (1..=labels).flat_map(|n| label(n).to_be_bytes()).collect();
    [&stack[..], packet].concat()
}

/// One frame of each kind that keeps a link alive, by name.
pub fn control() -> Vec<(&'static str, Vec<u8>)> {
    let solicitation = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &[0; 16]].concat();
    let mut bfd = vec![0; 32];
    bfd[..8].copy_from_slice(&[0xc0, 1, 0x0e, 0xc8, 0, 32, 0, 0]);
    vec![
        ("arp", arp()),
        ("nd", ethernet(0x86dd, &ipv6(58, 0, 255, &solicitation))),
        ("lldp", to([1, 0x80, 0xc2, 0, 0, 0x0e], 0x88cc, &[0; 46])),
        ("stp", to([1, 0x80, 0xc2, 0, 0, 0], 38, &[[0x42, 0x42, 3].as_slice(), &[0; 43]].concat())),
        ("lacp", to([1, 0x80, 0xc2, 0, 0, 2], 0x8809, &[&[1][..], &[0; 109]].concat())),
        ("bfd", ethernet(0x0800, &ipv4(17, 0xc0, 255, 0, &bfd))),
    ]
}

pub fn arp() -> Vec<u8> {
    let request = [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 192, 0, 2, 2];
    to([0xff; 6], 0x0806, &[&request[..], &[0; 18]].concat())
}

/// One's complement sum of the 16-bit words: 0xffff over a header with a right checksum.
pub fn sum(header: &[u8]) -> u16 {
    let words = header.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// The last four bytes as a number.
pub fn seq(frame: &[u8]) -> u32 {
    u32::from_be_bytes(*frame.last_chunk().unwrap())
}

/// The UDP source port of an untagged frame, less 1024.
pub fn flow(frame: &[u8]) -> u16 {
    u16::from_be_bytes([frame[34], frame[35]]) - 1024
}
