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
    let words =
        header.chunks(2).map(|word| u32::from(word[0]) << 8 | word.get(1).map_or(0, |low| u32::from(*low)));
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

/// A TCP segment, or many as one packet.
#[derive(Clone, Debug)]
pub struct Tcp {
    pub v6: bool,
    pub tag: Option<u16>,
    pub flow: u16,
    pub id: u16,
    pub seq: u32,
    pub flags: u8,
    pub ds: u8,
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
}

pub const CWR: u8 = 0x80;
pub const ACK: u8 = 0x10;
pub const PSH: u8 = 0x08;
pub const FIN: u8 = 0x01;

impl Tcp {
    /// An acknowledgement with timestamps and `len` bytes of noise.
    pub fn noise(flow: u16, len: usize, rng: &mut impl FnMut() -> u16) -> Self {
        let mut options = vec![1, 1, 8, 10];
        options.extend((0..8).map(|_| rng() as u8));
        let (id, seq) = (rng(), u32::from(rng()) << 16 | u32::from(rng()));
        let payload = (0..len.div_ceil(2)).flat_map(|_| rng().to_be_bytes()).take(len).collect();
        Self { v6: false, tag: None, flow, id, seq, flags: ACK, ds: 0, options, payload }
    }

    /// The frame, all checksums right. Length fields of IPv4 hold 65535 bytes at most.
    pub fn frame(&self) -> Vec<u8> {
        let mut tcp = vec![];
        tcp.extend((1024 + self.flow).to_be_bytes());
        tcp.extend(5001u16.to_be_bytes());
        tcp.extend(self.seq.to_be_bytes());
        tcp.extend([0, 0, 0, 7, (5 + self.options.len() / 4) as u8 * 16, self.flags, 1, 0, 0, 0, 0, 0]);
        tcp.extend(&self.options);
        tcp.extend(&self.payload);
        let mut packet = match self.v6 {
            true => ipv6(6, self.ds, 64, &tcp),
            false => ipv4(6, self.ds, 64, 0x4000, &tcp),
        };
        let (at, addresses) = if self.v6 { (40, 8..40) } else { (20, 12..20) };
        if !self.v6 {
            packet[4..6].copy_from_slice(&self.id.to_be_bytes());
            packet[10..12].fill(0);
            let checksum = !sum(&packet[..20]);
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        let pseudo = [&packet[addresses], &[0, 6], &(tcp.len() as u16).to_be_bytes()].concat();
        let checksum = !sum(&[&pseudo[..], &tcp].concat());
        packet[at + 16..at + 18].copy_from_slice(&checksum.to_be_bytes());
        let ethertype = if self.v6 { 0x86dd } else { 0x0800 };
        match self.tag {
            Some(id) => ethernet(0x8100, &vlan(id, ethertype, &packet)),
            None => ethernet(ethertype, &packet),
        }
    }

    /// What a sender without offload would have sent: segments of `mss` bytes.
    pub fn segments(&self, mss: usize) -> Vec<Self> {
        let last = self.payload.len().div_ceil(mss) - 1;
        let segment = |(i, payload): (usize, &[u8])| Self {
            id: self.id.wrapping_add(i as u16),
            seq: self.seq.wrapping_add((i * mss) as u32),
            flags: self.flags
                & if i == 0 { 0xff } else { !CWR }
                & if i == last { 0xff } else { !(PSH | FIN) },
            payload: payload.to_vec(),
            ..self.clone()
        };
        self.payload.chunks(mss).enumerate().map(segment).collect()
    }

    pub fn header_len(&self) -> usize {
        14 + self.tag.map_or(0, |_| 4) + if self.v6 { 40 } else { 20 } + 20 + self.options.len()
    }
}
